"""EASY backfill: the first in line hold promises, others may slip in as long as no promise moves later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpusquad.model.errors import Invalid
from gpusquad.model.views import Board
from gpusquad.registry import register


@register("plan", "easy")
@dataclass(frozen=True)
class Easy:
    """The first in line get a promise; whoever fits without moving it may go first."""

    reservations: int = 1
    backfill: Literal["order", "shortest"] = "order"

    def __post_init__(self) -> None:
        if self.reservations < 1:
            raise Invalid("plan.easy.reservations", f"{self.reservations} is less than one")

    def walk(self, board: Board) -> None:
        promised = 0
        for job in board.in_order():
            if not board.start(job) and board.reserve(job):
                promised += 1
                if promised == self.reservations:
                    break
        for job in board.candidates(by=self.backfill):
            board.start(job)
