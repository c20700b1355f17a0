"""The service on a Kubernetes cluster: users create the pods, the scheduler chooses their nodes and cards."""

from __future__ import annotations

import concurrent.futures
import os
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog

from gpusquad.app.config import KubernetesConfig
from gpusquad.app.pod_status import PodStatusUpdater
from gpusquad.core.job_objects import JobObjectCreator
from gpusquad.core.ports import Engine
from gpusquad.engines.kubernetes.client import token_review
from gpusquad.engines.kubernetes.client.leader import Leader
from gpusquad.engines.kubernetes.create.creator import KubernetesJobCreator
from gpusquad.engines.kubernetes.create.manifests import ManifestSettings
from gpusquad.engines.kubernetes.engine import KubernetesEngine
from gpusquad.engines.kubernetes.pod_logs import JobLogInfo, PodLogSource
from gpusquad.engines.kubernetes.settings import KubernetesSettings, StatusSettings
from gpusquad.kube.access import load_access
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.server.agent_auth import AgentAuth, TokenIdentity
from gpusquad.server.errors import Unavailable
from gpusquad.server.services.cluster.agent_reports import AgentReports
from gpusquad.server.services.jobs.estimators import EstimatorRunner
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.server.services.sharing.card_reports import ReportedDivides
from gpusquad.server.services.sharing.cards import CardDivides, NoDivides
from gpusquad.server.wiring import Agents, LogSource, PodSource
from gpusquad.store.jobs import FINAL_STATES, JobRow

_REVIEW_S = 10.0
_log = structlog.get_logger("gpusquad.kubernetes")


class KubernetesPlatform:
    """Waits until this replica leads, then watches the cluster. A replica that loses the lead exits at once, because
    another one now decides."""

    on_cluster = True
    simulated = False

    def __init__(self, config: KubernetesConfig, now_us: Callable[[], int]) -> None:
        access = load_access(Path(config.kubeconfig) if config.kubeconfig else None, config.context or None)
        self._leader: Leader | None = None
        if config.lease:
            self._leader = Leader(access, config.namespace or access.namespace or "default", config.lease,
                                  socket.gethostname(), _stop)  # fmt: skip
            _log.info("waiting for the lease", lease=config.lease)
            self._leader.acquire()
        self._report: Callable[[Any], None] = lambda said: None
        status = StatusSettings(
            per_second=config.status_writes_per_s, every_s=config.status_repeat_s, assigned=config.scheduled_event
        )
        settings = KubernetesSettings(scheduler=config.scheduler, start_timeout_s=config.start_timeout_s,
                            dry_run=config.dry_run, status=status)  # fmt: skip
        self._engine = KubernetesEngine(access, self._say, settings, on_broken=_stop)
        self.cluster = self._engine.cluster
        self.maker: JobObjectCreator | None = KubernetesJobCreator(self._engine, ManifestSettings(
            config.scheduler, config.image, dict(config.namespaces), config.keep_finished_s, config.dry_run,
        ))  # fmt: skip
        self._logs = PodLogSource(self._engine)
        self.logs: LogSource = self._logs
        self.pods: PodSource | None = self._engine
        self.estimators: EstimatorRunner | None = None
        self.agents: Agents | None = None
        self.divides: CardDivides = NoDivides("nodes have no agents here")
        if config.agent_account:
            reports = AgentReports(now_us, config.report_every_s)
            self.agents = Agents(AgentAuth(self._review, config.agent_account), reports)
            self.divides = ReportedDivides(reports)
        self._story = PodStatusUpdater(self._engine, status)

    def allows_unmanaged(self, card: str) -> bool:
        return isinstance(self.divides, ReportedDivides) and self.divides.allows_unmanaged(card)

    def cluster_priority(self, job_id: str) -> str:
        return self._engine.cluster_priority(job_id)

    def make_engine(self, report: Callable[[Any], None]) -> Engine:
        self._report = report
        return self._engine

    def set_policy_source(self, policy_of: Callable[[str], str]) -> None:
        """Agents get the policies with the answers to their reports."""

    def attach(self, scheduler: Scheduler) -> None:
        self._logs.run_of = lambda job_id: _run_of(scheduler.row(job_id))
        self._story.begin(scheduler.queries)
        if self.agents is not None:
            self.agents.reports.attach(scheduler.watcher)
            self.agents.reports.start()

    def on_events(self, events: Sequence[tuple[int, StoryEvent]]) -> None:
        self._story.heard(events)

    def close(self) -> None:
        if self.agents is not None:
            self.agents.reports.close()
        self._story.close()
        self._engine.close()
        if self._leader is not None:
            self._leader.close()

    def _say(self, said: Any) -> None:
        self._report(said)

    def _review(self, token: str) -> TokenIdentity:
        try:
            found = self._engine.call_api(lambda api: token_review.review(api, token)).result(_REVIEW_S)
        except (ApiRefused, ApiUnreachable, TimeoutError, RuntimeError, concurrent.futures.CancelledError) as error:
            _log.warning("cannot review an agent's token", why=str(error) or "no answer in time")
            raise Unavailable("the cluster cannot verify the token", wait_s=5.0) from None
        return TokenIdentity(found.user, found.node)


def _run_of(row: JobRow) -> JobLogInfo:
    return JobLogInfo(row.attempt, row.started_us is not None and row.state in FINAL_STATES)


def _stop(why: object) -> None:
    _log.error("the service stops", why=str(why))
    os.kill(os.getpid(), signal.SIGTERM)
