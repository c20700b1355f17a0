"""Priority classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import PRIORITY_CLASSES, URGENT, Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_step, waited_us
from gpusquad.registry import register

_BELOW_URGENT = PRIORITY_CLASSES[URGENT] - 1


@register("order", "urgent")
@dataclass(frozen=True)
class PriorityClass(OrderPolicy):
    """Highest priority class first, then by submit time. Each age_s of waiting raises a job by one class."""

    varies: ClassVar[Varies] = "with_time"

    age_s: float = DAY_S

    def __post_init__(self) -> None:
        check_step(self.age_s, "age_s")

    def key(self, job: Job, view: OrderView) -> tuple:
        level = job.priority_level
        # Waiting raises a job up to high, never to urgent: only users assign that class.
        if level < _BELOW_URGENT:
            raised = max(waited_us(job, view), 0) // (self.age_s * US_PER_S)
            level = min(level + raised, _BELOW_URGENT)
        return (-level, job.submitted_us, job.id)
