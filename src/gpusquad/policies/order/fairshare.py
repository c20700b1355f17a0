"""Fair share of past usage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_step, check_wait, is_overdue
from gpusquad.registry import register


@register("order", "fairshare")
@dataclass(frozen=True)
class FairShare(OrderPolicy):
    """Tenants with the smallest weighted recent usage first. Jobs that waited max_wait_s go before all others."""

    varies: ClassVar[Varies] = "with_time"
    by_turns: ClassVar[bool] = True
    passes_by: ClassVar[str] = "its tenant has used less lately, by weight"

    step_gpu_s: float = 3600.0
    max_wait_s: float = DAY_S

    def __post_init__(self) -> None:
        check_step(self.step_gpu_s, "step_gpu_s")
        check_wait(self.max_wait_s)

    def key(self, job: Job, view: OrderView) -> tuple:
        if is_overdue(job, view, self.max_wait_s):
            return (0, job.eligible_us, job.id)
        tenant = view.tenant(job.tenant)
        used_gpu_s = tenant.decayed_gpu_s / tenant.weight if tenant.weight > 0 else math.inf
        # Whole steps: usage decays continuously, so nearly equal tenants would swap places in every cycle.
        # Floor division of infinity gives NaN, which does not sort, so infinity stays as it is.
        steps = used_gpu_s // self.step_gpu_s if used_gpu_s < math.inf else math.inf
        return (1, steps, job.eligible_us, job.id)
