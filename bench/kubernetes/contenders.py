"""The schedulers that are measured: each is started on a plane, asked what it cost, and stopped."""

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
from bench.kubernetes.wire import Door
from tests.kube.daemons import Daemon
from tests.kube.plane import ControlPlane


class Contender(ABC):
    """A program that binds pods. Another joins by a class here and its place in ``CONTENDERS``."""

    name: ClassVar[str]
    scheduler_name: ClassVar[str]
    """What pods that it shall bind have in their spec."""
    native_gangs: ClassVar[bool]
    """Whether it reads Kubernetes' own PodGroups; else the label of the coscheduling plugin says who is of one gang."""

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
        """From when it takes up a pod until it knows the node, without the write; None where it does not tell."""


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
        door = Door(self._plane.url, self._plane.certificate, "")
        text = fetch(self._plane.scheduler_metrics, door.tls())
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
        """Of whole cycles, each of which decides for all pods that came since the last one."""
        home = self._plane.folder / "gpusquad"
        url = json.loads((home / "server.json").read_text())["url"]
        text = fetch(f"{url}/metrics", ssl.create_default_context(), (home / "token").read_text().strip())
        return quantile(text, "gpusquad_cycle_seconds", 0.99)


CONTENDERS: tuple[type[Contender], ...] = (KubeScheduler, Gpusquad)
"""The first is the baseline of the others."""
