"""Shortest remaining processing time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_wait, is_overdue
from gpusquad.policies.order._estimates import is_unknown
from gpusquad.registry import register


@register("order", "srpt")
@dataclass(frozen=True)
class ShortestRemainingTime(OrderPolicy):
    """Shortest predicted remaining time goes first and preempts. Jobs that waited max_wait_s go before all others."""

    varies: ClassVar[Varies] = "with_time"
    preempts: ClassVar[bool] = True

    max_wait_s: float = DAY_S

    def __post_init__(self) -> None:
        check_wait(self.max_wait_s)

    def key(self, job: Job, view: OrderView) -> tuple:
        if is_overdue(job, view, self.max_wait_s):
            return (0, job.eligible_us, job.id)
        return (1, is_unknown(view.prediction(job)), view.remaining_us(job), job.eligible_us, job.id)
