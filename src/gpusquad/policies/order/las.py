"""Least attained service: needs no prediction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_step, check_wait, is_overdue
from gpusquad.registry import register


@register("order", "las")
@dataclass(frozen=True)
class LeastAttainedService(OrderPolicy):
    """Jobs with the least GPU time so far go first and preempt. Jobs that waited max_wait_s go before all others."""

    varies: ClassVar[Varies] = "with_time"
    preempts: ClassVar[bool] = True

    quantum_s: float = 3600.0
    max_wait_s: float = DAY_S

    def __post_init__(self) -> None:
        check_step(self.quantum_s, "quantum_s")
        check_wait(self.max_wait_s)

    def key(self, job: Job, view: OrderView) -> tuple:
        if is_overdue(job, view, self.max_wait_s):
            return (0, job.eligible_us, job.id)
        # Whole quanta: otherwise two equal jobs would preempt each other endlessly.
        return (1, view.served_gpu_s(job) // self.quantum_s, job.eligible_us, job.id)
