"""Dominant resource fairness (Ghodsi et al., NSDI 2011)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.registry import register


@register("order", "drf")
@dataclass(frozen=True)
class DominantResourceFairness(OrderPolicy):
    """Tenants with the smallest weighted share of their dominant resource first; their jobs by eligible time."""

    varies: ClassVar[Varies] = "with_service"
    by_turns: ClassVar[bool] = True
    passes_by: ClassVar[str] = "its tenant holds less now, by weight"
    changes_with_each_start: ClassVar[bool] = True

    def key(self, job: Job, view: OrderView) -> tuple:
        tenant = view.tenant(job.tenant)
        held = tenant.dominant_ratio / tenant.weight if tenant.weight > 0 else math.inf
        return (held, job.eligible_us, job.id)

    def next(self, view: OrderView) -> Job | None:
        """The next job; call again after each start."""
        return min(view.waiting(), key=lambda job: self.key(job, view), default=None)
