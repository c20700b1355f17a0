"""Everything that can be chosen, chosen: what a mode bundles."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import DEFAULT_LANES, Lane
from gpusquad.model.job import Request
from gpusquad.registry import create


@dataclass(frozen=True, slots=True)
class PreemptionConfig:
    """Who may push a running gang off its cards."""

    by: Literal["none", "priority", "order"] = "none"
    """priority: a higher class; order: whoever the order (srpt, las) puts before it, higher classes included."""
    min_run_s: float = 60.0
    """A gang that just started is left alone that long."""
    most_per_job: int = 3
    """Nobody is preempted more often than this."""


@dataclass(frozen=True)
class Policies:
    """The order, the plan, the place and their surroundings."""

    order: Any
    plan: Any
    place: Any
    preemption: PreemptionConfig = PreemptionConfig()
    lanes: tuple[Lane, ...] = DEFAULT_LANES
    tenants: tuple[TenantQuota, ...] = ()
    demand: tuple[tuple[Request, float], ...] = ()
    """What tasks usually ask for, for places that measure fragmentation."""
    names: dict[str, str] = field(default_factory=dict)
    """The same as text, for the record."""


def make_policies(order: str = "fifo", plan: str = "easy", place: str = "binpack", **rest: Any) -> Policies:
    """From text: ``make_policies("fifo", "easy:backfill=shortest", "binpack")``."""
    return Policies(
        order=create("order", order), plan=create("plan", plan), place=create("place", place),
        names={"order": order, "plan": plan, "place": place}, **rest,
    )  # fmt: skip
