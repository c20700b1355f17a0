"""What the services tell the routers: plain data, in the core's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpusquad.model.reasons import Reason
from gpusquad.model.views import RunTimePrediction

Role = Literal["admin", "member", "viewer"]
CardState = Literal["free", "busy", "shared", "taken_outside", "cordoned", "drained"]


@dataclass(frozen=True, slots=True)
class Who:
    """Who asks."""

    user: str
    tenant: str
    role: Role
    scopes: frozenset[str] = frozenset({"read", "submit", "admin"})

    @property
    def is_admin(self) -> bool:
        return self.role == "admin" and "admin" in self.scopes


SYSTEM = Who("gpusquad", "default", "admin")
"""The service itself, where nobody asked."""


@dataclass(frozen=True, slots=True)
class AccuracyAnswer:
    """How good forecasts of starts were so far."""

    count: int
    within_ratio: float
    """Starts no later than the high end of their forecast."""
    median_error_s: float


@dataclass(frozen=True, slots=True)
class RunTimeAccuracy:
    """How good predicted run times of one kind were, in two numbers."""

    count: int
    within_ratio: float
    """Runs that ended by the high end of their prediction."""
    median_ratio: float
    """Half of the predictions were this near, in parts of the truth."""


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """When a job that runs is expected to end, as things stand."""

    mid_us: int
    high_us: int
    source: str


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pending job as the queue shows it; ``eta_us`` only where it is known already."""

    job_id: str
    position: int
    promised_us: int | None
    eta_us: int | None
    code: str
    message: str
    eta_high_us: int | None = None
    """If every gang needs the high quantile of its time."""


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """Every blocker."""

    position: int | None
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class ReservedStart:
    """A start that a waiting job was promised."""

    start_us: int
    latest_us: int
    """As it was first promised, from pessimistic run times."""
    nodes: tuple[str, ...] = ()
    """By rank; empty while counting cards is enough."""


@dataclass(frozen=True, slots=True)
class PendingSummary:
    """What somebody who waits wants to know, in short."""

    position: int | None
    reasons: Sequence[Reason]
    eta_us: int | None = None
    promised: ReservedStart | None = None


@dataclass(frozen=True, slots=True)
class WhenAnswer:
    """A start as a range, and how far to trust it."""

    position: int | None
    start_us: int | None
    high_us: int | None
    promised_us: int | None
    forecast: RunTimePrediction | None
    accuracy: AccuracyAnswer | None
    record: RunTimeAccuracy | None = None
    """How good such predictions of run times were for the tenant."""
    end: EndAnswer | None = None
    """Of a job that runs."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where one task runs or would run."""

    task: int
    node: str
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """What a job would meet if it were submitted now."""

    refused: Reason | None
    starts_now: bool
    start_us: int | None
    high_us: int | None
    promised_us: int | None
    forecast: RunTimePrediction | None
    placement: tuple[TaskPlace, ...] = ()
    delayed: tuple[tuple[str, int], ...] = ()
    preempted: tuple[str, ...] = ()
    reasons: Sequence[Reason] = ()
    """What would keep it waiting."""


@dataclass(frozen=True, slots=True)
class CardUser:
    """A job on a card."""

    job_id: str
    name: str
    user: str
    tenant: str
    sm_milli: int | None = None
    """None: the whole card."""
    memory_bytes: int | None = None
    isolation: str = "shared"


@dataclass(frozen=True, slots=True)
class CardStatus:
    """A card now."""

    id: str
    node: str
    index: int
    model: str
    memory_bytes: int
    state: CardState
    cause: str = ""
    jobs: tuple[CardUser, ...] = ()
    sample: Mapping[str, Any] | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """Announced maintenance."""

    id: str
    nodes: tuple[str, ...]
    start_us: int
    end_us: int | None
    by: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A machine now."""

    id: str
    drained: bool
    cpu_milli: int
    cpu_free_milli: int
    memory_bytes: int
    memory_free_bytes: int
    cards: tuple[CardStatus, ...] = ()
    windows: tuple[WindowStatus, ...] = ()
    rack: str = ""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """All machines in a few numbers."""

    gpus: int
    free: int
    usable: Mapping[int, int]
    """Gang size on one node: how many such gangs fit now."""
    unhealthy: int
    taken_outside: int
    simulated: bool
    mode: str


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What decides now, and since when."""

    revision: int
    mode: str
    order: str
    plan: str
    place: str
    preemption: Mapping[str, Any]
    modes: Sequence[str]
    at_us: int
    by: str
    note: str = ""
    divide: str = "equal"
    """How shared cards are divided that have no setting of their own."""


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """What other policies would change on the queue as it is."""

    starts: tuple[str, ...]
    """Pending jobs that would start now."""
    preempted: tuple[str, ...]
    moved: tuple[tuple[str, int | None, int | None], ...]
    """Job, start now, start then."""


PEAK = "peak"
"""In place of an amount of memory: the most that was seen, and a little more."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """A change to a job that waits or runs; None leaves as it is."""

    name: str | None = None
    priority: str | None = None
    queue: str | None = None
    lane: str | None = None
    estimate_us: int | None = None
    limit_us: int | None = None
    slo: Mapping[str, Any] | None = None
    """As a job file writes it; an empty one removes the goal."""
    memory: int | Literal["peak"] | None = None
    """Bytes of its card that each task may hold; ``PEAK``: by what was seen of it."""
    memory_milli: int | None = None
    """In place of them: thousandths of the memory of whichever card it is on."""
    extra: Mapping[str, Any] = field(default_factory=dict)
