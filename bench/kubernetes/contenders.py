"""The measured schedulers: each is started on a control plane, measured and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import ssl
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from bench.kubernetes.metrics import fetch, quantile
from bench.kubernetes.usage import Usage
from bench.kubernetes.wire import ApiServer
from tests.kube.daemons import Daemon
from tests.kube.plane import ControlPlane


class Contender(ABC):
    """A program that binds pods. Another joins by a class here and its place in ``CONTENDERS``."""

    name: ClassVar[str]
    scheduler_name: ClassVar[str]
    """Fields of the spec of pods that it should bind."""
    native_gangs: ClassVar[bool]
    """Whether it reads native PodGroups. Otherwise the label of the coscheduling plugin names the gang."""

    def start(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._daemon = plane.daemons[self.name] = self.launch(plane)

    @abstractmethod
    def launch(self, plane: ControlPlane) -> Daemon:
        """Starts the program; it need not be ready."""

    def stop(self) -> None:
        self._daemon.stop()
        self._plane.daemons.pop(self.name)

    @contextlib.contextmanager
    def at_work(self, plane: ControlPlane) -> Iterator[None]:
        self.start(plane)
        try:
            yield
        finally:
            self.stop()

    @property
    def usage(self) -> Usage:
        return Usage.of(self._daemon.pid)

    @property
    def resident_bytes(self) -> int:
        return self.usage.resident_bytes

    @property
    @abstractmethod
    def decision_p99_s(self) -> float | None:
        """Time from taking a pod to choosing its node, without the write; None if the scheduler does not report it."""


class KubeScheduler(Contender):
    """With its client's limits out of the way, else as it comes."""

    name = "kube-scheduler"
    scheduler_name = "default-scheduler"
    native_gangs = True

    def launch(self, plane: ControlPlane) -> Daemon:
        plane.start_scheduler()
        return plane.daemons["kube-scheduler"]

    @property
    def decision_p99_s(self) -> float | None:
        server = ApiServer(self._plane.url, self._plane.certificate, "")
        text = fetch(self._plane.scheduler_metrics, server.tls())
        return quantile(text, "scheduler_scheduling_algorithm_duration_seconds", 0.99)


class Gpusquad(Contender):
    """The service as an administrator runs it, with its store in a file."""

    name = "gpusquad"
    scheduler_name = "gpusquad"
    native_gangs = True

    def launch(self, plane: ControlPlane) -> Daemon:
        home = plane.folder / "gpusquad"
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(
            f'[cluster]\nengine = "kubernetes"\n[kubernetes]\nlease = ""\n'
            f'kubeconfig = "{plane.kubeconfig("admin")}"\n[server]\nport = 0\n'
        )
        command = [sys.executable, "-m", "gpusquad", "serve"]
        daemon = Daemon(self.name, command, plane.folder, env={**os.environ, "GPUSQUAD_HOME": str(home)})
        daemon.start()
        return daemon

    @property
    def decision_p99_s(self) -> float | None:
        """Time of whole cycles. Each decides for all pods that arrived since the last one."""
        home = self._plane.folder / "gpusquad"
        url = json.loads((home / "server.json").read_text())["url"]
        text = fetch(f"{url}/metrics", ssl.create_default_context(), (home / "token").read_text().strip())
        return quantile(text, "gpusquad_cycle_seconds", 0.99)


CONTENDERS: tuple[type[Contender], ...] = (KubeScheduler, Gpusquad)
"""The first is the baseline of the others."""
