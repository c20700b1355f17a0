"""Nodes, policies and usage."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from gpusquad.server.params import Line, Name
from gpusquad.server.schemas.base import ApiBody, ApiView, Gpus, Next, Priority, Seconds

CardStateName = Literal["free", "busy", "shared", "taken_outside", "cordoned", "drained"]


class CardUserView(ApiView):
    """A job on a card; of other tenants only that there is one."""

    id: str | None
    name: str | None
    user: str | None
    share: dict[str, float | int | str | None] | None = Field(
        description="sm (ratio), memory_bytes, and isolation: shared or isolated; null: the whole card"
    )


class SelfTestView(ApiView):
    at_s: float
    passed: bool | None = Field(description="null: it cannot be tested on its node")
    detail: str
    took_s: float


class CardView(ApiView):
    id: str
    uuid: str | None
    model: str
    memory_bytes: int
    index: int
    state: CardStateName
    cause: str
    jobs: list[CardUserView]
    sample: dict[str, Any] | None
    simulated: bool
    self_test: SelfTestView | None = Field(description="Last self-test; null: not tested since the start of its agent")


class WindowView(ApiView):
    id: str
    nodes: list[str]
    start_s: float
    end_s: float | None
    by: str
    cause: str


class WindowPage(ApiView):
    items: list[WindowView]
    next: Next


class WindowRequest(ApiBody):
    nodes: list[Line] = Field(min_length=1, max_length=10_000)
    start_s: Seconds
    end_s: Seconds | None = None
    cause: Line = ""


class NodeView(ApiView):
    id: str
    rack: str
    """Empty: unknown."""
    up: bool
    drained: bool
    cpu_milli: int
    cpu_free_milli: int
    memory_bytes: int
    memory_free_bytes: int
    cards: list[CardView]
    windows: list[WindowView]


class NodePage(ApiView):
    items: list[NodeView]
    next: Next


class ClusterView(ApiView):
    gpus: int
    free: int
    usable: dict[str, int]
    unhealthy: int
    taken_outside: int
    simulated: bool
    mode: str


class SampleView(ApiView):
    """One sample of a card, or the means over a span. null: unknown."""

    at_s: float
    utilisation_ratio: float | None
    memory_utilisation_ratio: float | None
    memory_used_bytes: float | None
    power_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None


class SamplePage(ApiView):
    items: list[SampleView]
    next: Next


class PreemptionRequest(ApiBody):
    by: Line | None = None
    min_run_s: Seconds | None = None
    most_per_job: int | None = Field(None, ge=0, le=1_000_000)
    overstay: Line | None = Field(
        None,
        description="Backfilled jobs to preempt when they outlive their time: never, checkpointed, always",
    )


class LaneRequest(ApiBody):
    """A lane and the rule that assigns jobs to it."""

    name: Name
    min_gpus: Gpus = Field(0, description="Total GPUs of the job, inclusive")
    max_gpus: Gpus | None = None
    tenants: list[Name] = Field([], max_length=1000, description="Empty: all")
    priorities: list[Priority] = Field([], max_length=1000, description="Names or integers; empty: all")
    preemptible: bool = Field(True, description="Whether its running jobs may be preempted")
    max_lost_s: Seconds | None = Field(
        None, description="Preempt only jobs that can be suspended or whose last checkpoint is at most this old"
    )
    limit_ratio: float = Field(1.0, gt=0, le=1, description="Fraction of all GPUs that the lane may hold at most")


class LaneView(ApiView):
    name: str
    min_gpus: int
    max_gpus: int | None
    tenants: list[str]
    priorities: list[str]
    preemptible: bool
    max_lost_s: float | None
    limit_ratio: float


class PolicyRequest(ApiBody):
    """Settings to change; others stay as in the mode."""

    mode: Line | None = None
    order: Line | None = None
    plan: Line | None = None
    place: Line | None = None
    preemption: PreemptionRequest | None = None
    lanes: list[LaneRequest] | None = Field(
        None, min_length=1, max_length=100, description="All lanes, in order: the first rule that matches decides"
    )
    preemptible: list[Name] | None = Field(
        None, max_length=100, description="Names of the lanes whose running jobs may be preempted; others may not"
    )
    note: Line = ""


class AutomaticView(ApiView):
    mode: str = Field(description="The mode that the automatic mode chose")
    since_s: float
    why: str
    changes: int = Field(description="Changes in the last 24 hours")
    max_changes: int = Field(description="Maximum number of changes in 24 hours")
    next_mode: str = Field(description="Another mode that fits the goals now; empty if there is none")
    next_s: float | None = Field(description="When that mode comes into force at the earliest, if it still fits")
    next_why: str


class PolicyView(ApiView):
    revision: int
    mode: str
    order: str
    plan: str
    place: str
    divide: str = Field(description="Divide policy of shared cards without a setting of their own")
    preemption: dict[str, Any]
    automatic: AutomaticView | None = Field(description="What an automatic mode chose; null if the mode is pinned")
    lanes: list[LaneView]
    modes: list[str]
    since_s: float
    by: str
    note: str


class Revision(ApiView):
    revision: int
    at_s: float
    by: str
    settings: dict[str, Any]
    note: str


class RevisionPage(ApiView):
    items: list[Revision]
    next: Next


class MovedStart(ApiView):
    """Start now, and with the other policies."""

    job: str
    before_s: float | None
    after_s: float | None


class PreviewView(ApiView):
    starts: list[str]
    preempted: list[str]
    moved: list[MovedStart]


class UsageLine(ApiView):
    key: str
    tenant: str
    gpu_hours: float
    jobs: int
    attempts: int


class UsagePage(ApiView):
    items: list[UsageLine]
    next: Next


class HealthView(ApiView):
    ok: bool
    reason: str
