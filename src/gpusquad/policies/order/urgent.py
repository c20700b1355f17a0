"""Priority classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.priority import PRIORITY_CLASSES, URGENT_LEVEL
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_step, waited_us
from gpusquad.registry import register

_STEPS = tuple(level for level in PRIORITY_CLASSES.values() if level < URGENT_LEVEL)
"""Levels to which waiting raises a job, never to urgent: only users assign that class."""


@register("order", "urgent")
@dataclass(frozen=True)
class PriorityClass(OrderPolicy):
    """Highest priority first, then by eligible time. Each age_s of waiting raises a job to the next class."""

    varies: ClassVar[Varies] = "with_time"

    age_s: float = DAY_S

    def __post_init__(self) -> None:
        check_step(self.age_s, "age_s")

    def key(self, job: Job, view: OrderView) -> tuple:
        level = job.priority_level
        steps = max(waited_us(job, view), 0) // (self.age_s * US_PER_S)
        raised = int(min(steps, len(_STEPS)))  # infinite if age_s is tiny
        if raised == len(_STEPS):
            level = max(level, URGENT_LEVEL - 1)  # ahead of all numbers below urgent, so that none starves it
        elif above := [step for step in _STEPS if step > level] if raised else []:
            level = above[min(raised, len(above)) - 1]
        return (-level, job.eligible_us, job.id)
