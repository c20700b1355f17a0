"""Conservative backfill: every pending job holds a reservation."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.errors import Invalid
from gpusquad.model.policy import PlanPolicy
from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "conservative")
@dataclass(frozen=True)
class Conservative(PlanPolicy):
    """Every job gets a reservation at once. A job may be backfilled only if it delays none of them."""

    depth: int = 1000
    """Maximum number of reservations. Bounds the cost of a very long queue."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise Invalid("plan.conservative.depth", f"{self.depth} is less than one", "use 1 or more")

    def walk(self, session: PlanSession) -> None:
        reserved = 0
        for job in session.in_order():
            if not (session.start(job) or session.start_unconditionally(job)) and session.reserve(job):
                reserved += 1
                if reserved == self.depth:
                    break
