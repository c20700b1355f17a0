"""Delay of the head of the queue: how much later it starts than without any backfill from then on.

On nodes with one card this needs no second simulation. Without backfill, a gang starts as soon as enough running jobs
have ended, and the simulation knows their ends. The result is therefore exact for every gang that was ever head of the
queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.views import PlanSession


class HeadDelayPlan:
    """A plan policy that records when each new head of the queue would start without backfill."""

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
        self._plan.walk(_ObservedSession(board, self))

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


class _ObservedSession:
    """The plan session, observed at the first reservation of a walk: jobs ahead have started, and no job is backfilled
    yet."""

    def __init__(self, board: PlanSession, watched: HeadDelayPlan) -> None:
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
