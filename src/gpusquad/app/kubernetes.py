"""A service that stands on a Kubernetes cluster: others make the pods, and this decides where they go."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog

from gpusquad.app.config import KubernetesConfig
from gpusquad.core.ports import Engine
from gpusquad.engines.kubernetes.access import load_access
from gpusquad.engines.kubernetes.engine import KubernetesEngine
from gpusquad.engines.kubernetes.leader import Leader
from gpusquad.engines.kubernetes.settings import Settings
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.server.services.turn import Told
from gpusquad.server.wiring import LogSource

_log = structlog.get_logger("gpusquad.kubernetes")


class NoLogs:
    """The cluster keeps the logs of pods."""

    def reader(self, job_id: str, attempt: int) -> None:
        return None

    def folder(self, job_id: str, attempt: int) -> Path | None:
        return None


class KubernetesGround:
    """Waits until it leads, then watches the cluster. Whoever loses the lead ends at once: another decides now."""

    on_cluster = True
    simulated = False

    def __init__(self, config: KubernetesConfig) -> None:
        access = load_access(Path(config.kubeconfig) if config.kubeconfig else None, config.context or None)
        self._leader: Leader | None = None
        if config.lease:
            self._leader = Leader(access, config.namespace or access.namespace or "default", config.lease,
                                  socket.gethostname(), _stop)  # fmt: skip
            _log.info("waiting for the lead", lease=config.lease)
            self._leader.acquire()
        self._report: Callable[[Any], None] = lambda said: None
        settings = Settings(scheduler=config.scheduler, start_timeout_s=config.start_timeout_s,
                            dry_run=config.dry_run)  # fmt: skip
        self._engine = KubernetesEngine(access, self._say, settings, on_broken=_stop)
        self.cluster = self._engine.cluster
        self.logs: LogSource = NoLogs()

    def make_engine(self, report: Callable[[Any], None]) -> Engine:
        self._report = report
        return self._engine

    def begin(self, scheduler: Scheduler) -> None:
        pass

    def heard(self, told: Sequence[tuple[int, Told]]) -> None:
        pass

    def close(self) -> None:
        self._engine.close()
        if self._leader is not None:
            self._leader.close()

    def _say(self, said: Any) -> None:
        self._report(said)


def _stop(why: object) -> None:
    _log.error("the service ends", why=str(why))
    os.kill(os.getpid(), signal.SIGTERM)
