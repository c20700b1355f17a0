"""EASY backfill: the first jobs that cannot start hold reservations; others are backfilled without delaying them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from gpusquad.model.errors import Invalid
from gpusquad.model.policy import Binds, PlanPolicy
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "easy")
@dataclass(frozen=True)
class Easy(PlanPolicy):
    """The first jobs that cannot start get a reservation. Any other job may start if it delays none of them."""

    reservations: int = 1
    backfill: Literal["order", "shortest", "merit"] = "order"
    patience_s: float = inf
    """When the head of the queue has waited this long, careful quantiles apply to all ends and stays until it runs."""
    wide: float = 0.0
    """Reduction of patience_s for a gang that needs the whole cluster. 0.5: half the time."""
    aged_s: float = inf
    """Jobs that have waited this long are backfilled before jobs with more merit, by eligible time."""
    binds: Binds = "always"
    """When a reservation binds the jobs backfilled before it: always, once one of them has outlived its time
    (overstayed), or never."""

    def __post_init__(self) -> None:
        if self.reservations < 1:
            raise Invalid("plan.easy.reservations", f"{self.reservations} is less than one", "use 1 or more")
        for name in ("patience_s", "aged_s"):
            if not getattr(self, name) >= 0:
                raise Invalid(
                    f"plan.easy.{name}", f"{getattr(self, name)!r} is not a non-negative time", "use seconds, or inf"
                )
        if not 0 <= self.wide <= 1:
            raise Invalid("plan.easy.wide", f"{self.wide!r} is not between 0 and 1", "use 0 to 1")

    def patience_us(self, width_ratio: float) -> float:
        return self.patience_s * US_PER_S * (1.0 - self.wide * width_ratio)

    def walk(self, session: PlanSession) -> None:
        reserved = 0
        for job in session.in_order():
            if not (session.start(job) or session.start_unconditionally(job)) and session.reserve(job):
                reserved += 1
                if reserved == self.reservations:
                    break
        for job in session.candidates(self.backfill, self.aged_s):
            session.start(job)
