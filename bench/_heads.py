"""How much later the first in line starts than if nobody had slipped in from then on.

On nodes of one card this needs no second simulation: with nobody passing it, a gang starts as soon as enough of those
who run have ended, and a simulation knows when they end. So it is exact, for every gang that was ever first in line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.views import PlanSession


class Watched:
    """A plan as it is; when a gang becomes the first that has to wait, its start with nobody passing is noted."""

    def __init__(self, plan: Any, run_us: Mapping[str, int]) -> None:
        self._plan = plan
        self._run_us = run_us
        self.unpassed_us: dict[str, int] = {}
        """Job -> when it would have started."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._plan, name)

    def walk(self, board: PlanSession) -> None:
        self._plan.walk(_Watching(board, self))

    def note(self, state: SchedulerState, job: Job) -> None:
        if job.id not in self.unpassed_us:
            self.unpassed_us[job.id] = self._start_us(state, job)

    def _start_us(self, state: SchedulerState, job: Job) -> int:
        free = state.space.idle_total
        if free >= job.gpus:
            return state.now_us
        runs = state.runs.by_id.values()
        for end_us, gpus in sorted((run.started_us + self._run_us[run.job.id], run.job.gpus) for run in runs):
            free += gpus
            if free >= job.gpus:
                return end_us
        raise ValueError(f"{job.id} never fits")


class _Watching:
    """The board, with an eye on the first promise of a walk: those ahead have started, nobody has slipped in yet."""

    def __init__(self, board: PlanSession, watched: Watched) -> None:
        self._board = board
        self._watched = watched
        self._first = True

    def in_order(self) -> Iterable[Job]:
        return self._board.in_order()

    def start(self, job: Job) -> bool:
        return self._board.start(job)

    def start_unconditionally(self, job: Job) -> bool:
        return self._board.start_unconditionally(job)

    def reserve(self, job: Job) -> bool:
        if self._first:
            self._watched.note(self._board.state, job)  # pyright: ignore[reportAttributeAccessIssue]
            self._first = False
        return self._board.reserve(job)

    def candidates(self, by: str, aged_s: float = inf) -> Iterable[Job]:
        return self._board.candidates(by, aged_s)
