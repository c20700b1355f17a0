"""What a mode is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gpusquad.core.accounts import Tenant
from gpusquad.core.lanes import DEFAULT_LANES, Lane
from gpusquad.core.policies import Policies, Preemption, make_policies
from gpusquad.model.prediction import Uses


@dataclass(frozen=True)
class Mode:
    """A named bundle of choices. Policies are kept as text, as the file says them."""

    name: str
    summary: str = ""
    order: str = "fifo"
    plan: str = "easy"
    place: str = "binpack"
    divide: str = "equal"
    """How a shared card is divided over time. Kept for the kernel tier; the cluster tier does not use it."""
    predictor: str = ""
    """Who foretells run times. Empty: as whoever runs it decides."""
    uses: Uses = field(default_factory=Uses)
    preemption: Preemption = field(default_factory=Preemption)
    lanes: tuple[Lane, ...] = DEFAULT_LANES
    tenants: tuple[Tenant, ...] = ()

    def policies(self, **overrides: Any) -> Policies:
        """What the core runs on. ``overrides`` take the place of the mode's own: ``order="las"``, ``lanes=…``."""
        chosen = {name: getattr(self, name) for name in ("order", "plan", "place", "preemption", "lanes", "tenants")}
        policies = make_policies(**(chosen | overrides))
        if policies.preemption.by == "none":
            return policies
        return replace(policies, names=policies.names | {"preempt": policies.preemption.by})
