"""Predicts the ends of running jobs from their reported progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gpusquad.core.ports import EndPredicted
from gpusquad.core.transitions import JobState
from gpusquad.model.prediction import Quantiles
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.records import quantiles_of
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.following")
MAX_POINTS = 24
"""Reports kept per run for a restart: enough for its pace, not for every pause."""
Points = list[list[int]]
"""Times and steps in JSON form."""


class ProgressModel(Protocol):
    """Predicts the remaining time from steps done."""

    def see(self, at_us: int, step: int, total: int | None) -> object: ...

    def remaining(self, now_us: int, prior: Quantiles | None, started_us: int) -> Quantiles | None:
        """Remaining run time. None: not known yet."""
        ...


@dataclass(slots=True)
class _TrackedRun:
    """One run and some of its reports, kept for a restart."""

    follower: ProgressModel
    total: int | None = None
    points: Points = field(default_factory=list)

    def see(self, at_us: int, step: int, total: int | None) -> None:
        self.follower.see(at_us, step, total)
        if total != self.total:
            self.points.clear()  # they counted other steps
        self.total = total
        _add(self.points, at_us, step)


class ProgressTracking:
    """Called by the agent's reader thread. Results go to the core as one item of a pass."""

    def __init__(self, context: SchedulerContext, make: Callable[[], ProgressModel] | None) -> None:
        self._context = context
        self._make = make
        self._followers: dict[tuple[str, int], _TrackedRun] = {}

    def see(self, row: JobRow, run: Mapping[str, Any], at_us: int) -> None:
        """Add one report of a run with steps."""
        step, total, seen_us = run.get("step"), run.get("total"), run.get("progress_at_us")
        if self._make is None or step is None:
            return
        key = (row.id, row.attempt)
        try:
            if key not in self._followers:
                self._followers[key] = _begun(self._make(), row.progress or {})
            seen_us = at_us if seen_us is None else seen_us
            self._followers[key].see(seen_us, int(step), None if total is None else int(total))
        except Exception:
            _log.exception("progress not tracked", job=row.id)
            self._followers.pop(key, None)

    def points(self, job_id: str, attempt: int) -> Points:
        """Record to store for a run's reports."""
        tracked = self._followers.get((job_id, attempt))
        return [] if tracked is None else [list(point) for point in tracked.points]

    def foresee(self, at_us: int) -> None:
        """At intervals: predict the ends of all tracked runs."""
        found = [event for key in list(self._followers) if (event := self._foreseen(key, at_us)) is not None]
        if found:
            self._context.loop.post(lambda: self._apply(found))

    def _foreseen(self, key: tuple[str, int], at_us: int) -> tuple[int, EndPredicted] | None:
        row = self._context.rows.get(key[0])
        if row is None or row.attempt != key[1] or row.state != JobState.RUNNING or row.started_us is None:
            del self._followers[key]
            return None
        try:
            left = self._followers[key].follower.remaining(at_us, quantiles_of(row), row.started_us)
        except Exception:
            _log.exception("end not predicted", job=row.id)
            return None
        if left is None:
            return None
        uses, now_us = self._context.predictor.uses, self._context.clock.now_us()
        end_us, high_end_us = now_us + max(0, left.at(uses.shadow)), now_us + max(0, left.at(uses.reservation))
        why = f"{row.id} needs longer than predicted, by its progress"
        return row.attempt, EndPredicted(row.id, end_us, why, max(end_us, high_end_us))

    def _apply(self, found: list[tuple[int, EndPredicted]]) -> None:
        for attempt, event in found:
            row = self._context.rows.get(event.job_id)
            if row is not None and (row.attempt, row.state) == (attempt, JobState.RUNNING):
                self._context.driver.apply(self._context.unit.now_us, event)


def _begun(follower: ProgressModel, reported: Mapping[str, Any]) -> _TrackedRun:
    """Restore reports from before a restart. A new attempt has none."""
    tracked, total = _TrackedRun(follower), reported.get("total")
    for at_us, step in reported.get("points", ()):
        tracked.see(int(at_us), int(step), None if total is None else int(total))
    return tracked


def _add(points: Points, at_us: int, step: int) -> None:
    """Evenly spread over the whole run: the longer it is, the wider apart."""
    if points and (at_us - points[-1][0]) * MAX_POINTS < max(points[-1][0] - points[0][0], 1):
        return
    points.append([at_us, step])
    if len(points) > MAX_POINTS:
        del points[1:-1:2]
