"""SLOs first: services, then deadlines by the latest possible start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gpusquad.model.job import Job, Slo
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_wait, is_overdue
from gpusquad.policies.order._estimates import is_unknown
from gpusquad.registry import register

_OVERDUE, _SERVICE, _DEADLINE, _REST = range(4)


@register("order", "slo")
@dataclass(frozen=True)
class SloOrder(OrderPolicy):
    """Services first, then deadlines by latest start, then the rest; jobs that waited max_wait_s before all."""

    varies: ClassVar[Varies] = "with_time"

    missed: Literal["behind", "keep"] = "behind"
    """Jobs that can no longer meet their deadline. behind: treated as if they had none; keep: keep their position."""
    max_wait_s: float = DAY_S

    def __post_init__(self) -> None:
        check_wait(self.max_wait_s)

    def key(self, job: Job, view: OrderView) -> tuple:
        service = _is_service(job.slo)
        latest_us = None if service else _latest_start_us(job, view)
        # A deadline that can be met ages by itself as its latest start approaches. With days to spare, an early submit
        # time is no reason to go before others.
        if latest_us is not None and view.now_us <= latest_us:
            return (_DEADLINE, latest_us, job.eligible_us, job.id)
        if is_overdue(job, view, self.max_wait_s):
            return (_OVERDUE, job.eligible_us, job.id)
        if service:
            return (_SERVICE, job.eligible_us, job.id)
        if latest_us is not None and self.missed == "keep":
            return (_DEADLINE, latest_us, job.eligible_us, job.id)
        return (_REST, job.eligible_us, job.id)


def _is_service(slo: Slo | None) -> bool:
    return slo is not None and (slo.latency_us, slo.throughput_per_s, slo.availability_ratio) != (None, None, None)


def _latest_start_us(job: Job, view: OrderView) -> int | None:
    if job.slo is None or job.slo.deadline_us is None:
        return None
    # Without an estimate the latest start is unknown, so only the deadline itself counts.
    return job.slo.deadline_us - (0 if is_unknown(view.prediction(job)) else view.remaining_us(job))
