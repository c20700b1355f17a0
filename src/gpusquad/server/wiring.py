"""What the API stands on. The routers know these interfaces; ``app`` puts the real things behind them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anyio import CapacityLimiter

from gpusquad.server.answers import (
    CardStatus,
    ClusterStatus,
    JobChange,
    NodeStatus,
    PolicyPreview,
    PolicyStatus,
    QueueEntry,
    WhatIfAnswer,
    WhenAnswer,
    Who,
    WhyAnswer,
    WindowStatus,
)
from gpusquad.server.broadcast import Broadcast
from gpusquad.server.clock import Clock
from gpusquad.server.limits import ApiLimits
from gpusquad.server.services.jobs.advice import Advice, AdviceCard
from gpusquad.server.slow_requests import SlowRequestPool
from gpusquad.server.sse import Streams

if TYPE_CHECKING:
    from gpusquad.server.agent_auth import AgentAuth
    from gpusquad.server.audit import AuditTrail
    from gpusquad.server.auth import Auth
    from gpusquad.server.metrics import Meters
    from gpusquad.server.secrets import SecretStore
    from gpusquad.server.services.cluster.agent_reports import AgentReports
    from gpusquad.server.services.context import SchedulerContext
    from gpusquad.server.services.sharing.cards import CardService
    from gpusquad.server.services.sharing.interference_learning import InterferenceLearner
    from gpusquad.spec.model import JobSpec
    from gpusquad.store.database import Database
    from gpusquad.store.jobs import JobRow


class SchedulerPort(Protocol):
    """The scheduler as the routers call it: from any thread. Rights are checked before; ``who`` is noted."""

    def submit(
        self, specs: Sequence[JobSpec], who: Who, group_id: str | None, key: str | None = None
    ) -> list[JobRow]: ...
    def what_if(self, spec: JobSpec, who: Who) -> WhatIfAnswer: ...
    def update(self, job_id: str, change: JobChange, who: Who) -> object: ...
    def cancel(self, job_id: str, who: Who, cause: str) -> object: ...
    def hold(self, job_id: str, who: Who) -> object: ...
    def release(self, job_id: str, who: Who) -> object: ...
    def why(self, job_id: str) -> WhyAnswer: ...
    def when(self, job_id: str) -> WhenAnswer: ...
    def queue(self, offset: int, limit: int, tenant: str | None = None) -> Sequence[QueueEntry]:
        """Pending jobs in order, of one tenant if given; positions count everybody's."""
        ...

    def nodes(self) -> Sequence[NodeStatus]: ...
    def cards(self) -> Sequence[CardStatus]: ...
    def cluster(self) -> ClusterStatus: ...
    def drain(self, node: str, who: Who, cause: str) -> object: ...
    def undrain(self, node: str, who: Who) -> object: ...
    def cordon(self, card: str, who: Who, cause: str) -> object: ...
    def uncordon(self, card: str, who: Who) -> object: ...
    def windows(self) -> Sequence[WindowStatus]: ...
    def add_window(
        self, nodes: Sequence[str], start_us: int, end_us: int | None, who: Who, cause: str
    ) -> WindowStatus: ...
    def remove_window(self, window_id: str, who: Who) -> object: ...
    def policy(self) -> PolicyStatus: ...
    def set_policy(self, settings: Mapping[str, Any], who: Who, note: str) -> PolicyStatus: ...
    def preview_policy(self, settings: Mapping[str, Any]) -> PolicyPreview: ...
    def reload_tenants(self) -> object:
        """Tenants changed in the store: read them again."""
        ...

    @property
    def context(self) -> SchedulerContext | None:
        """What it decides on, for pages that draw the plan. None: it keeps none, and they show what the store knows."""
        ...

    @property
    def neighbours(self) -> InterferenceLearner | None:
        """What it learns of jobs that share a card. None: nothing."""
        ...

    def ready(self) -> tuple[bool, str]: ...
    def on_event(self, callback: Callable[..., None]) -> object: ...


class LogBytes(Protocol):
    """Some bytes of a log, and where they stand."""

    @property
    def offset(self) -> int: ...
    @property
    def data(self) -> bytes: ...
    @property
    def next_offset(self) -> int: ...


class LogReader(Protocol):
    """The logs of one attempt, while it runs and after."""

    def tasks(self) -> Sequence[int]: ...
    def size(self, task: int) -> tuple[int, int]: ...
    def read(self, task: int, offset: int, limit: int) -> LogBytes: ...
    def tail(self, task: int, lines: int) -> int: ...


class LogSource(Protocol):
    """Where logs are."""

    def reader(self, job_id: str, attempt: int) -> LogReader | None:
        """None: nothing was written, or it is gone."""
        ...

    def folder(self, job_id: str, attempt: int) -> Path | None:
        """A folder to watch for changes; None where there is none to watch."""
        ...


class PodSource(Protocol):
    """Where gangs are pods of a cluster."""

    def job_of_pod(self, namespace: str, name: str) -> str:
        """The id of the job it is part of; empty: none yet, or there is no such pod."""
        ...


@dataclass(frozen=True, slots=True)
class Agents:
    """Where the nodes of a cluster have agents: who they are, and what becomes of what they report."""

    auth: AgentAuth
    reports: AgentReports


class NoticePort(Protocol):
    """Sends notices."""

    def check(self, url: str) -> None:
        """Raises ``Invalid`` for an address that nothing can be sent to."""
        ...

    def test(self, url: str) -> str:
        """Send a notice now; empty, or what went wrong."""
        ...

    def wake(self) -> None:
        """Something is due."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """All of it, for one app."""

    scheduler: SchedulerPort
    database: Database
    logs: LogSource
    notices: NoticePort
    secrets: SecretStore
    metrics: Meters
    auth: Auth
    audit: AuditTrail
    divides: CardService
    pods: PodSource | None = None
    """None: jobs are no pods here."""
    agents: Agents | None = None
    """None: nobody reports here."""
    limits: ApiLimits = field(default_factory=ApiLimits)
    broadcast: Broadcast = field(default_factory=Broadcast)
    clock: Clock = field(default_factory=Clock)
    monotonic_s: Callable[[], float] = time.monotonic
    advice: Advice = field(init=False)
    slow: SlowRequestPool = field(init=False)
    streams: Streams = field(init=False)
    stream_threads: CapacityLimiter = field(init=False)
    """Streams read in threads of their own, so that however many there are, requests do not wait behind them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "advice", Advice(self.database, self._cards))
        object.__setattr__(self, "slow", SlowRequestPool(self.limits.slow_at_once, self.limits.slow_waiting))
        object.__setattr__(self, "streams", Streams(self.limits.streams, self.limits.streams_of_one))
        object.__setattr__(self, "stream_threads", CapacityLimiter(self.limits.stream_threads))

    def _cards(self) -> list[AdviceCard]:
        return [AdviceCard(card.node, card.model, card.memory_bytes) for card in self.scheduler.cards()]
