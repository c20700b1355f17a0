"""What a service stands on: this machine, or a Kubernetes cluster. Everything above is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gpusquad.app.card_policies import SquadDivides
from gpusquad.app.config import Config
from gpusquad.app.local_machine import LocalMachine
from gpusquad.app.run_logs import RunLogs
from gpusquad.app.sharing import SquadWatch, make_sharing
from gpusquad.core.job_objects import JobObjectCreator
from gpusquad.core.ports import Engine
from gpusquad.engines.local.engine import LocalEngine, LogLimits
from gpusquad.model.cluster import Cluster
from gpusquad.model.virtual import physical
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.server.services.scheduler import Scheduler
from gpusquad.server.services.sharing.cards import CardDivides
from gpusquad.server.wiring import Agents, LogSource, PodSource

NOT_ON_CARDS = frozenset({"pending", "held", "promised", "eta_moved", "starting"})
"""Events that bring no run to look after and end none."""


class Platform(Protocol):
    """Where jobs run, and how the service hears of it."""

    cluster: Cluster
    simulated: bool
    on_cluster: bool
    logs: LogSource
    pods: PodSource | None
    agents: Agents | None
    """Of the nodes of a cluster. None: no others than this machine's own report."""
    maker: JobObjectCreator | None
    """Makes jobs that are submitted here, where the engine only finds them."""
    divides: CardDivides
    """Who divides cards among those who share them."""

    def admits_strangers(self, card: str) -> bool:
        """Whether others may join a shared card where a process is that nothing holds."""
        ...

    def make_engine(self, report: Callable[[Any], None]) -> Engine: ...
    def divide_by(self, policy_of: Callable[[str], str]) -> None:
        """Who begins to divide a card asks this by which policy."""
        ...

    def begin(self, scheduler: Scheduler) -> None:
        """The scheduler decides from here on."""
        ...

    def heard(self, told: Sequence[tuple[int, StoryEvent]]) -> None:
        """What is on record now."""
        ...

    def close(self) -> None: ...


class LocalPlatform:
    """This machine: its agent finds the cards, and tasks are its processes."""

    on_cluster = False
    maker: JobObjectCreator | None = None
    pods: PodSource | None = None
    agents: Agents | None = None

    def __init__(self, home: Path, config: Config) -> None:
        self._home = home
        self._log_bytes = config.logs.task_bytes
        self._machine = LocalMachine(config.cluster, str(home))
        self.cluster = self._machine.cluster
        self.simulated = self._machine.simulated
        self.logs: LogSource = RunLogs(home)
        self._cards = self.cluster.nodes[0].cards
        self._sharing = make_sharing(config.sharing, home, self._cards, self.simulated, self._policy_of)
        self._admits_strangers = not self._sharing.absence and config.sharing.unmanaged != "refuse"
        self._divides = SquadDivides()
        self.divides: CardDivides = self._divides
        self._divides.use(self._sharing)
        self._watch = None if self._sharing.absence else SquadWatch(self._sharing)
        self._scheduler: Scheduler | None = None

    def admits_strangers(self, card: str) -> bool:
        return self._admits_strangers

    def make_engine(self, report: Callable[[Any], None]) -> Engine:
        return LocalEngine(
            self._home, report, LogLimits(self._log_bytes), uuid_of=physical, sharing=self._sharing,
            cards=self._cards, share_note=self._sharing.absence,
        )  # fmt: skip

    def divide_by(self, policy_of: Callable[[str], str]) -> None:
        self._divides.wanted = policy_of

    def begin(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._machine.listen(self._hear)
        self.heard(())

    def heard(self, told: Sequence[tuple[int, StoryEvent]]) -> None:
        """Which runs to look after, whenever a job came onto its cards or left them."""
        if self._scheduler is None or (told and all(one.kind in NOT_ON_CARDS for _, one in told)):
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
