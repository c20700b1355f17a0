"""No backfill: strictly in order."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.policy import PlanPolicy
from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "none")
@dataclass(frozen=True)
class NoBackfill(PlanPolicy):
    """No backfill: the first job that does not fit blocks all jobs behind it."""

    def walk(self, session: PlanSession) -> None:
        for job in session.in_order():
            if not (session.start(job) or session.start_unconditionally(job)):
                session.reserve(job)
                break
