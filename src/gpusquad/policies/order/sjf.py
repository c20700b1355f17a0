"""Shortest job first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_wait, is_overdue
from gpusquad.policies.order._estimates import is_unknown
from gpusquad.registry import register


@register("order", "sjf")
@dataclass(frozen=True)
class ShortestJobFirst(OrderPolicy):
    """Shortest predicted run time first. Jobs that waited max_wait_s go before all others, by eligible time."""

    varies: ClassVar[Varies] = "with_time"

    max_wait_s: float = DAY_S

    def __post_init__(self) -> None:
        check_wait(self.max_wait_s)

    def key(self, job: Job, view: OrderView) -> tuple:
        if is_overdue(job, view, self.max_wait_s):
            return (0, job.eligible_us, job.id)
        prediction = view.prediction(job)
        return (1, is_unknown(prediction), prediction.mid_us, job.eligible_us, job.id)
