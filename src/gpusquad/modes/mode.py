"""The ``Mode`` dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import DEFAULT_LANES, Lane
from gpusquad.core.state.policies import Policies, PreemptionConfig, make_policies
from gpusquad.model.prediction import QuantileLevels
from gpusquad.modes.choice import ModeRules


@dataclass(frozen=True)
class Mode:
    """A named bundle of policies and settings. Policies are stored as text, as in the file."""

    name: str
    summary: str = ""
    order: str = "fifo"
    plan: str = "easy"
    place: str = "binpack"
    divide: str = "equal"
    """Divide policy of shared cards. The cluster scheduler does not use it."""
    predictor: str = ""
    """Run-time predictor. Empty: chosen by the service or the simulator."""
    uses: QuantileLevels = field(default_factory=QuantileLevels)
    preemption: PreemptionConfig = field(default_factory=PreemptionConfig)
    lanes: tuple[Lane, ...] = DEFAULT_LANES
    tenants: tuple[TenantQuota, ...] = ()
    rules: ModeRules | None = None
    """Of an automatic mode, which chooses among other modes. Its own policies are those of ``rules.otherwise``."""

    def policies(self, **overrides: Any) -> Policies:
        """Create the policies. ``overrides`` replace the mode's own: ``order="las"``, ``lanes=…``."""
        chosen = {name: getattr(self, name) for name in ("order", "plan", "place", "preemption", "lanes", "tenants")}
        policies = make_policies(**(chosen | overrides))
        if policies.preemption.by == "none":
            return policies
        return replace(policies, names=policies.names | {"preempt": policies.preemption.by})
