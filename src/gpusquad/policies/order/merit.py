"""Largest saving of slowdown first."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import OrderView
from gpusquad.policies.order._ageing import DAY_S, check_wait, waited_us
from gpusquad.policies.order._estimates import is_unknown
from gpusquad.registry import register

_NEVER_US = 1 << 62


@register("order", "merit")
@dataclass(frozen=True)
class MostMerit(OrderPolicy):
    """Largest expected saving of slowdown per card time first, as long as no job waits longer than max_wait_s."""

    varies: ClassVar[Varies] = "when_due"

    max_wait_s: float = 2 * DAY_S
    wide: float = 0.0
    """Reduction of the maximum wait for a gang that needs the whole cluster. 0.5: overdue in half the time."""
    own_runs: float = 3.0
    """A job may also wait this multiple of its expected run time, even beyond max_wait_s. If run times are unbounded,
    max_wait_s alone would make all long jobs due at once, and the order would be by eligible time for days."""

    def __post_init__(self) -> None:
        check_wait(self.max_wait_s)
        if not 0 <= self.wide <= 1:
            raise Invalid("order.merit.wide", f"{self.wide!r} is not between 0 and 1", "use 0 to 1")
        if not 0 <= self.own_runs < inf:
            raise Invalid("order.merit.own_runs", f"{self.own_runs!r} is not a finite number of runs", "use 0 or more")

    def key(self, job: Job, view: OrderView) -> tuple:
        if self.due_us(job, view) <= view.due_until_us:
            return (0, job.eligible_us, job.id)
        prediction = view.prediction(job)
        return (1, is_unknown(prediction), -prediction.merit_for_width(job.gpus), job.eligible_us, job.id)

    def due_us(self, job: Job, view: OrderView) -> int:
        """When the job becomes due."""
        if self.max_wait_s == inf:  # it cannot be scaled
            return _NEVER_US
        wait_us = self.max_wait_s * US_PER_S
        prediction = view.prediction(job)
        if not is_unknown(prediction):
            wait_us = max(wait_us, self.own_runs * prediction.expected_us)
        wait_us *= 1.0 - self.wide * min(1.0, job.gpus / max(1, view.gpus))
        return round(min(view.now_us - waited_us(job, view) + wait_us, _NEVER_US))
