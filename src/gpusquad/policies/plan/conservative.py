"""Conservative backfill: everybody holds a promise."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.errors import Invalid
from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "conservative")
@dataclass(frozen=True)
class Conservative:
    """Everybody gets a promise at once, and slips forward only past promises that stay where they are."""

    depth: int = 1000
    """Only so many hold promises; who is further back waits for one. Bounds the cost of a very long queue."""

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise Invalid("plan.conservative.depth", f"{self.depth} is less than one", "use 1 or more")

    def walk(self, board: PlanSession) -> None:
        promised = 0
        for job in board.in_order():
            if not (board.start(job) or board.start_unconditionally(job)) and board.reserve(job):
                promised += 1
                if promised == self.depth:
                    break
