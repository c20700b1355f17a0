"""First in, first out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from gpusquad.model.job import Job
from gpusquad.model.policy import OrderPolicy, Varies
from gpusquad.model.views import OrderView
from gpusquad.policies.order._estimates import is_unknown
from gpusquad.registry import register


@register("order", "fifo")
@dataclass(frozen=True)
class Fifo(OrderPolicy):
    """First come, first served, by eligible time. Ties: by arrival, or the smaller amount of work first."""

    varies: ClassVar[Varies] = "never"

    ties: Literal["arrival", "work"] = "arrival"

    def key(self, job: Job, view: OrderView) -> tuple:
        if self.ties == "arrival":
            # No ID here: the core breaks ties by arrival, and IDs need not sort by arrival ("10" < "9").
            return (job.eligible_us,)
        prediction = view.prediction(job)
        return (job.eligible_us, is_unknown(prediction), job.gpu_milli * prediction.mid_us, job.id)
