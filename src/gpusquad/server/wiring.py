"""Interfaces that the routers use. ``app`` supplies the implementations."""

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
    EndAnswer,
    HangStatus,
    HeldEntry,
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
from gpusquad.server.services.jobs.advice import Advice
from gpusquad.server.services.jobs.eligible_nodes import AdviceCard, AdviceNode, ClusterRoom
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
    from gpusquad.server.services.queries.plan_forecast import PlanForecaster
    from gpusquad.server.services.sharing.cards import CardService
    from gpusquad.server.services.sharing.interference_learning import InterferenceLearner
    from gpusquad.spec.model import JobSpec
    from gpusquad.store.database import Database
    from gpusquad.store.jobs import JobRow


class QueryPort(Protocol):
    """Read-only answers of the scheduler."""

    @property
    def forecaster(self) -> PlanForecaster | None:
        """Forecast of the plan. None: there is no plan, and pages show only what is stored."""
        ...

    def what_if(self, spec: JobSpec, who: Who) -> WhatIfAnswer: ...
    def why(self, job_id: str) -> WhyAnswer: ...
    def when(self, job_id: str) -> WhenAnswer: ...
    def queue(self, offset: int, limit: int, tenant: str | None = None) -> Sequence[QueueEntry]:
        """Pending jobs in order, of one tenant if given. Positions count the jobs of all tenants."""
        ...

    def held(self, limit: int, tenant: str | None = None) -> Sequence[HeldEntry]:
        """Jobs that the service holds, oldest first, of one tenant if given."""
        ...

    def ends(self) -> Mapping[str, EndAnswer]:
        """Predicted ends of running jobs, without those that are not known."""
        ...


class NodePort(Protocol):
    """Nodes, cards and maintenance windows."""

    def nodes(self) -> Sequence[NodeStatus]: ...
    def cards(self) -> Sequence[CardStatus]: ...
    def cluster(self) -> ClusterStatus: ...
    def drain(self, node: str, who: Who, cause: str) -> object: ...
    def undrain(self, node: str) -> object: ...
    def cordon(self, card: str, who: Who, cause: str) -> object: ...
    def uncordon(self, card: str) -> object: ...
    def windows(self) -> Sequence[WindowStatus]: ...
    def add_window(
        self, nodes: Sequence[str], start_us: int, end_us: int | None, who: Who, cause: str
    ) -> WindowStatus: ...
    def remove_window(self, window_id: str) -> object: ...


class PolicyPort(Protocol):
    """The policies in force."""

    @property
    def divide(self) -> str:
        """The mode's divide policy for shared cards."""
        ...

    def status(self) -> PolicyStatus: ...
    def set(self, wanted: Mapping[str, Any], who: Who, note: str) -> PolicyStatus: ...
    def preview(self, wanted: Mapping[str, Any]) -> PolicyPreview: ...


class SuspectsPort(Protocol):
    """Cards under suspicion."""

    def wanted(self) -> list[str]:
        """Physical cards that their agents shall test."""
        ...


class HangsPort(Protocol):
    """Hang detection."""

    def warnings(self, row: JobRow) -> list[HangStatus]:
        """What it warns about now. Empty unless the job runs."""
        ...


class SchedulerPort(Protocol):
    """The scheduler as the routers call it, from any thread. Permissions are checked by the caller; ``who`` is
    recorded."""

    @property
    def queries(self) -> QueryPort: ...
    @property
    def node_service(self) -> NodePort: ...
    @property
    def policy_service(self) -> PolicyPort: ...
    @property
    def suspects(self) -> SuspectsPort: ...
    @property
    def hangs(self) -> HangsPort: ...

    def submit(
        self, specs: Sequence[JobSpec], who: Who, group_id: str | None, key: str | None = None
    ) -> list[JobRow]: ...
    def update(self, job_id: str, change: JobChange, who: Who) -> object: ...
    def cancel(self, job_id: str, who: Who, cause: str) -> object: ...
    def hold(self, job_id: str, who: Who) -> object: ...
    def release(self, job_id: str, who: Who) -> object: ...
    def reload_tenants(self) -> object:
        """Read the tenants again after they changed in the store."""
        ...

    @property
    def context(self) -> SchedulerContext | None:
        """State of the scheduler, for pages that show the plan. None: there is none, and pages show only what is
        stored."""
        ...

    @property
    def neighbours(self) -> InterferenceLearner | None:
        """Learns the interference of jobs that share a card. None: nothing is learned."""
        ...

    def ready(self) -> tuple[bool, str]: ...
    def on_event(self, callback: Callable[..., None]) -> object: ...


class LogBytes(Protocol):
    """Bytes of a log and their position."""

    @property
    def offset(self) -> int: ...
    @property
    def data(self) -> bytes: ...
    @property
    def next_offset(self) -> int: ...


class LogReader(Protocol):
    """Logs of one attempt, during and after its run."""

    def tasks(self) -> Sequence[int]: ...
    def size(self, task: int) -> tuple[int, int]: ...
    def read(self, task: int, offset: int, limit: int) -> LogBytes: ...
    def tail(self, task: int, lines: int) -> int: ...


class LogSource(Protocol):
    """Finds the logs of an attempt."""

    def reader(self, job_id: str, attempt: int) -> LogReader | None:
        """None if nothing was written or the log was deleted."""
        ...

    def folder(self, job_id: str, attempt: int) -> Path | None:
        """Folder to watch for changes. None if it cannot be watched."""
        ...


class PodSource(Protocol):
    """Maps pods to jobs, where gangs are pods."""

    def job_of_pod(self, namespace: str, name: str) -> str:
        """Id of the pod's job. Empty if the pod does not exist or has no job yet."""
        ...


@dataclass(frozen=True, slots=True)
class Agents:
    """Authentication of node agents and the handling of their reports."""

    auth: AgentAuth
    reports: AgentReports


class NoticePort(Protocol):
    """Sends notices."""

    def check(self, url: str) -> None:
        """Raise ``Invalid`` if no notice can be sent to this address."""
        ...

    def test(self, url: str) -> str:
        """Send a notice now. Returns the error, or an empty text."""
        ...

    def wake(self) -> None:
        """Send what is due."""
        ...

    def settle(self) -> None:
        """Wait shortly until the notices of all stored events are written."""
        ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that the API of one application needs."""

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
    """None if jobs are not pods."""
    agents: Agents | None = None
    """None if there are no node agents."""
    limits: ApiLimits = field(default_factory=ApiLimits)
    broadcast: Broadcast = field(default_factory=Broadcast)
    clock: Clock = field(default_factory=Clock)
    monotonic_s: Callable[[], float] = time.monotonic
    advice: Advice = field(init=False)
    slow: SlowRequestPool = field(init=False)
    streams: Streams = field(init=False)
    stream_threads: CapacityLimiter = field(init=False)
    """Threads for streams only, so that requests never wait for a stream."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "advice", Advice(self.database, self._room))
        object.__setattr__(self, "slow", SlowRequestPool(self.limits.slow_at_once, self.limits.slow_waiting))
        object.__setattr__(self, "streams", Streams(self.limits.streams, self.limits.streams_of_one))
        object.__setattr__(self, "stream_threads", CapacityLimiter(self.limits.stream_threads))

    def _room(self) -> ClusterRoom:
        nodes = self.scheduler.node_service.nodes()
        return ClusterRoom(
            [AdviceNode(node.id, node.cpu_milli, node.memory_bytes) for node in nodes],
            [AdviceCard(card.node, card.model, card.memory_bytes) for node in nodes for card in node.cards],
        )
