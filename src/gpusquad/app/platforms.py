"""Platforms of the service: this machine, or a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gpusquad.app.card_policies import SquadDivides
from gpusquad.app.config import Config
from gpusquad.app.estimator_files import EstimatorFiles
from gpusquad.app.last_progress import with_last_progress
from gpusquad.app.local_machine import LocalMachine
from gpusquad.app.run_logs import RunLogs
from gpusquad.app.sharing import SquadWatch, make_sharing
from gpusquad.core.job_objects import JobObjectCreator
from gpusquad.core.ports import Engine
from gpusquad.engines.local.engine import LocalEngine, LogLimits
from gpusquad.model.cluster import Cluster
from gpusquad.model.priority import DEFAULT_PRIORITY
from gpusquad.model.virtual import physical
from gpusquad.server.services.jobs.estimators import EstimatorRunner
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.server.services.sharing.cards import CardDivides
from gpusquad.server.wiring import Agents, LogSource, PodSource

NOT_ON_CARDS = frozenset({"pending", "held", "promised", "eta_moved", "starting"})
"""Events that neither add nor remove a run on cards."""


class Platform(Protocol):
    """An engine with its inventory and agents, as the service uses it."""

    cluster: Cluster
    simulated: bool
    on_cluster: bool
    logs: LogSource
    pods: PodSource | None
    agents: Agents | None
    """Agents of cluster nodes. None: only the agent of this machine reports."""
    maker: JobObjectCreator | None
    """Creates Kubernetes objects of jobs submitted to the service."""
    divides: CardDivides
    """Access to the card daemons."""
    estimators: EstimatorRunner | None
    """Files of estimators. None: they cannot run there."""

    def allows_unmanaged(self, card: str) -> bool:
        """Whether new jobs may share a card with unmanaged processes."""
        ...

    def cluster_priority(self, job_id: str) -> str:
        """Priority class that the cluster grants to the pods of a job."""
        ...

    def make_engine(self, report: Callable[[Any], None]) -> Engine: ...
    def set_policy_source(self, policy_of: Callable[[str], str]) -> None:
        """Set the function that returns a card's divide policy when its daemon starts."""
        ...

    def attach(self, scheduler: Scheduler) -> None:
        """Connect the scheduler, which decides from now on."""
        ...

    def on_events(self, events: Sequence[tuple[int, StoryEvent]]) -> None:
        """Handle events that were committed."""
        ...

    def close(self) -> None: ...


class LocalPlatform:
    """This machine. Its agent reports the cards, and tasks are local processes."""

    on_cluster = False
    maker: JobObjectCreator | None = None
    pods: PodSource | None = None
    agents: Agents | None = None

    def __init__(self, home: Path, config: Config) -> None:
        self._home = home
        self._log_bytes = config.logs.task_bytes
        self._machine = LocalMachine(config.cluster, str(home), config.hang_rules().look_after_s)
        self.cluster = self._machine.cluster
        self.simulated = self._machine.simulated
        self.logs: LogSource = RunLogs(home)
        self.estimators: EstimatorRunner | None = EstimatorFiles(home)
        self._cards = self.cluster.nodes[0].cards
        self._sharing = make_sharing(config.sharing, home, self._cards, self.simulated, self._policy_of)
        self._allows_unmanaged = not self._sharing.absence and config.sharing.unmanaged != "refuse"
        self._divides = SquadDivides()
        self.divides: CardDivides = self._divides
        self._divides.use(self._sharing)
        self._watch = None if self._sharing.absence else SquadWatch(self._sharing)
        self._scheduler: Scheduler | None = None

    def allows_unmanaged(self, card: str) -> bool:
        return self._allows_unmanaged

    def cluster_priority(self, job_id: str) -> str:
        return DEFAULT_PRIORITY

    def make_engine(self, report: Callable[[Any], None]) -> Engine:
        return LocalEngine(
            self._home, lambda one: report(with_last_progress(self._home, one)),
            LogLimits(self._log_bytes), uuid_of=physical, sharing=self._sharing,
            cards=self._cards, share_note=self._sharing.absence,
        )  # fmt: skip

    def set_policy_source(self, policy_of: Callable[[str], str]) -> None:
        self._divides.policy_source = policy_of

    def attach(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._machine.listen(self._hear)
        scheduler.suspects.on_wanted = self._machine.agent.tell_tests
        self._machine.agent.tell_tests(scheduler.suspects.wanted())
        self.on_events(())

    def on_events(self, events: Sequence[tuple[int, StoryEvent]]) -> None:
        """Send the current runs to the agent when a job got or released cards."""
        if self._scheduler is None or (events and all(event.kind in NOT_ON_CARDS for _, event in events)):
            return
        self._machine.agent.tell_runs([
            {"job": job_id, "attempt": attempt, "folder": str(self._home / "runs" / job_id / str(attempt)),
             "cards": cards, "pids": []}
            for job_id, attempt, cards in self._scheduler.running_attempts()
        ])  # fmt: skip

    def close(self) -> None:
        self._machine.close()
        if self._watch is not None:
            self._watch.close()

    def _policy_of(self, card: str) -> str:
        return self._divides.policy_of(card)

    def _hear(self, message: Mapping[str, Any]) -> None:
        assert self._scheduler is not None
        self._scheduler.watcher.hear(message if self._watch is None else self._watch.marked(message))
        if self._watch is not None:
            self._watch.hear(message)
