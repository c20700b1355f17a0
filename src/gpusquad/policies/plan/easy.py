"""EASY backfill: the first in line hold promises, others may slip in as long as no promise moves later."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from gpusquad.model.errors import Invalid
from gpusquad.model.views import PlanSession
from gpusquad.registry import register


@register("plan", "easy")
@dataclass(frozen=True)
class Easy:
    """The first in line get a promise; whoever fits without moving it may go first."""

    reservations: int = 1
    backfill: Literal["order", "shortest", "merit"] = "order"
    patience_s: float = inf
    """When the first in line has waited this long, ends and stays are counted by careful quantiles until it runs."""
    wide: float = 0.0
    """How much sooner a gang loses patience that needs the whole cluster: 0.5, in half the time."""
    aged_s: float = inf
    """Who has waited this long slips in before those with more merit, by request time."""

    def __post_init__(self) -> None:
        if self.reservations < 1:
            raise Invalid("plan.easy.reservations", f"{self.reservations} is less than one", "use 1 or more")
        for name in ("patience_s", "aged_s"):
            if not getattr(self, name) >= 0:
                raise Invalid(f"plan.easy.{name}", f"{getattr(self, name)!r} is not a time", "use seconds, or inf")
        if not 0 <= self.wide <= 1:
            raise Invalid("plan.easy.wide", f"{self.wide!r} is not between 0 and 1", "use 0 to 1")

    def walk(self, board: PlanSession) -> None:
        promised = 0
        for job in board.in_order():
            if not (board.start(job) or board.start_unconditionally(job)) and board.reserve(job):
                promised += 1
                if promised == self.reservations:
                    break
        for job in board.candidates(self.backfill, self.aged_s):
            board.start(job)
