"""No plan: strictly by the order."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "none")
@dataclass(frozen=True)
class NoBackfill:
    """Nobody passes: the first that does not fit holds up all behind it."""

    def walk(self, board: PlanSession) -> None:
        for job in board.in_order():
            if not (board.start(job) or board.start_unconditionally(job)):
                board.reserve(job)
                break
