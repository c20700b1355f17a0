"""Data that services return to routers, in the core's units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpusquad.core.explain.passed import Passed
from gpusquad.core.state.lanes import DEFAULT_LANES, Lane
from gpusquad.model.reasons import Reason
from gpusquad.model.views import RunTimePrediction

Role = Literal["admin", "member", "viewer"]
CardState = Literal["free", "busy", "shared", "taken_outside", "cordoned", "drained"]


@dataclass(frozen=True, slots=True)
class Who:
    """The caller."""

    user: str
    tenant: str
    role: Role
    scopes: frozenset[str] = frozenset({"read", "submit", "admin"})
    max_priority: str | None = None
    """Highest priority class granted to the user. None: that of the tenant applies."""
    may_choose_lane: bool | None = None
    """Whether the user was granted the choice of lanes. None: the right of the tenant applies."""

    @property
    def is_admin(self) -> bool:
        return self.role == "admin" and "admin" in self.scopes


SYSTEM = Who("gpusquad", "default", "admin")
"""The service itself, for changes without a caller."""


@dataclass(frozen=True, slots=True)
class AccuracyAnswer:
    """Accuracy of start forecasts."""

    count: int
    within_ratio: float
    """Fraction that started by the forecast P90."""
    median_error_s: float
    median_late_s: float
    """Negative: most started before the forecast."""


@dataclass(frozen=True, slots=True)
class RunTimeAccuracy:
    """Accuracy of one kind of run-time prediction."""

    count: int
    within_ratio: float
    """Fraction that ended by the predicted P90."""
    median_ratio: float
    """Median error, relative to the actual run time."""


@dataclass(frozen=True, slots=True)
class EndAnswer:
    """Predicted end of a running job."""

    mid_us: int
    high_us: int
    source: str


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pending job in the queue table; ``eta_us`` only if already known."""

    job_id: str
    position: int
    promised_us: int | None
    eta_us: int | None
    code: str
    message: str
    eta_high_us: int | None = None
    """P90 of the start. None: not known."""


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """A held job in the queue table."""

    job_id: str
    message: str


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """All blocking reasons."""

    position: int | None
    reasons: Sequence[Reason]
    passed: Sequence[Passed] = ()
    """Jobs that became eligible later and went ahead by a right."""


@dataclass(frozen=True, slots=True)
class HangStatus:
    """Hang detection warns about a running job."""

    rule: str
    since_us: int
    """Last sign of life, or start of the overrun."""
    warned_us: int
    message: str
    cure: str
    stops_us: int | None
    """When it is stopped unless that ends. None: it is not."""


@dataclass(frozen=True, slots=True)
class ReservedStart:
    """Reserved start of a pending job."""

    start_us: int
    latest_us: int
    """First reserved start, from pessimistic run times."""
    nodes: tuple[str, ...] = ()
    """By rank. Empty if only a number of cards is reserved."""


@dataclass(frozen=True, slots=True)
class PendingSummary:
    """Why a job is pending, and when it is expected to start."""

    position: int | None
    reasons: Sequence[Reason]
    eta_us: int | None = None
    reservation: ReservedStart | None = None


@dataclass(frozen=True, slots=True)
class WhenAnswer:
    """Forecast start as a range, with its accuracy."""

    position: int | None
    start_us: int | None
    high_us: int | None
    promised_us: int | None
    forecast: RunTimePrediction | None
    accuracy: AccuracyAnswer | None
    record: RunTimeAccuracy | None = None
    """Accuracy of such run-time predictions for the tenant."""
    end: EndAnswer | None = None
    """Of a running job."""


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Cards on which one task runs or would run."""

    task: int
    node: str
    cards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WhatIfAnswer:
    """What would happen to a job submitted now."""

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
    """Why it would wait."""


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
    """Current state of a card."""

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
    self_test: Mapping[str, Any] | None = None
    """Last self-test. None: it was not tested since the start of its agent."""


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """Maintenance window."""

    id: str
    nodes: tuple[str, ...]
    start_us: int
    end_us: int | None
    by: str = ""
    cause: str = ""


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """Current state of a node."""

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
    """Summary of all nodes."""

    gpus: int
    free: int
    usable: Mapping[int, int]
    """Gang size on one node: how many such gangs fit now."""
    unhealthy: int
    taken_outside: int
    simulated: bool
    mode: str


@dataclass(frozen=True, slots=True)
class AutomaticStatus:
    """What an automatic mode chose."""

    mode: str
    since_us: int
    why: str
    changes: int
    """Changes in the last 24 hours."""
    max_changes: int
    """Maximum number of changes in 24 hours."""
    next_mode: str = ""
    """Another mode that fits the goals now. Empty: none."""
    next_us: int | None = None
    """When that mode comes into force at the earliest, if it still fits then."""
    next_why: str = ""


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """Policies in use, and since when."""

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
    """Divide policy of shared cards without a setting of their own."""
    automatic: AutomaticStatus | None = None
    """None: the mode is pinned."""
    lanes: Sequence[Lane] = DEFAULT_LANES
    """Rules that assign jobs to lanes. The first that matches decides."""


@dataclass(frozen=True, slots=True)
class PolicyPreview:
    """Effect of other policies on the current queue."""

    starts: tuple[str, ...]
    """Pending jobs that would start now."""
    preempted: tuple[str, ...]
    moved: tuple[tuple[str, int | None, int | None], ...]
    """Job, start now, start with the other policies."""


PEAK = "peak"
"""Instead of an amount of memory: the observed peak plus a margin."""


@dataclass(frozen=True, slots=True)
class JobChange:
    """A change to a pending or running job. None leaves a field unchanged."""

    name: str | None = None
    priority: str | None = None
    queue: str | None = None
    lane: str | None = None
    estimate_us: int | None = None
    limit_us: int | None = None
    slo: Mapping[str, Any] | None = None
    """In job-file form. An empty one removes the SLO."""
    memory: int | Literal["peak"] | None = None
    """Bytes of its card that each task may hold; ``PEAK``: by its observed peak."""
    memory_milli: int | None = None
    """Instead: thousandths of the memory of its card."""
    extra: Mapping[str, Any] = field(default_factory=dict)
