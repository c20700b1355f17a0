"""The policies and settings that a mode bundles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import DEFAULT_LANES, Lane
from gpusquad.model.job import Request
from gpusquad.model.policy import OrderPolicy, PlacePolicy, PlanPolicy
from gpusquad.registry import create


@dataclass(frozen=True, slots=True)
class PreemptionConfig:
    """Which jobs may preempt a running gang."""

    by: Literal["none", "priority", "order"] = "none"
    """priority: jobs of a higher class; order: jobs that the order policy (srpt, las) puts first, or of a higher
    class."""
    min_run_s: float = 60.0
    """Minimum run time before a gang can be preempted."""
    most_per_job: int = 3
    """Maximum number of preemptions of one job."""
    overstay: Literal["never", "checkpointed", "always"] = "checkpointed"
    """Which backfilled jobs are preempted when they outlive the time for which they were admitted and a job ahead of
    them could start otherwise. checkpointed: those that lose little, because they write checkpoints."""


@dataclass(frozen=True)
class Policies:
    """The order, plan and place policies with their settings."""

    order: OrderPolicy
    plan: PlanPolicy
    place: PlacePolicy
    preemption: PreemptionConfig = PreemptionConfig()
    lanes: tuple[Lane, ...] = DEFAULT_LANES
    tenants: tuple[TenantQuota, ...] = ()
    demand: tuple[tuple[Request, float], ...] = ()
    """Typical task requests with weights, for place policies that measure fragmentation."""
    names: dict[str, str] = field(default_factory=dict)
    """Kind -> the text it was created from."""


def make_policies(order: str = "fifo", plan: str = "easy", place: str = "binpack", **rest: Any) -> Policies:
    """Create policies from text: ``make_policies("fifo", "easy:backfill=shortest", "binpack")``."""
    return Policies(
        order=create("order", order), plan=create("plan", plan), place=create("place", place),
        names={"order": order, "plan": plan, "place": place}, **rest,
    )  # fmt: skip
