"""Who runs longer than predicted is told until when it is expected now: a line in its story."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from gpusquad.core.state.runs import NEVER_US
from gpusquad.model.decision import Decision
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.reservations import ReservationLog
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork

MIN_US = 60 * US_PER_S
MIN_RATIO = 0.25
"""Told again when it has run so much longer, by both, since it was told last."""


class Overruns:
    """Watches the ends that each cycle moved later.

    Half of all runs take longer than the middle of their forecast, and nobody wants to read that. A run is told of once
    it is past the high end, or as soon as somebody else has to wait longer for it."""

    def __init__(self, context: SchedulerContext, promises: ReservationLog) -> None:
        self._context = context
        self._promises = promises
        self._told: dict[str, tuple[int, int]] = {}
        """Job -> the attempt, and how long it had run when it was told last."""
        context.after_deciding.append(self._note)

    def _note(self, unit: UnitOfWork, decisions: Sequence[Decision]) -> None:
        state = self._context.state
        for job_id, end_us in state.later_ends.items():
            if job_id in unit.rows and job_id in state.runs and end_us < NEVER_US:
                self._moved(unit, job_id, end_us, job_id in self._promises.blamed)
        state.later_ends.clear()
        for job_id in [job_id for job_id in self._told if job_id not in unit.rows]:
            del self._told[job_id]

    def _moved(self, unit: UnitOfWork, job_id: str, end_us: int, is_blamed: bool) -> None:
        run = self._context.state.runs[job_id]
        ran_us = unit.now_us - run.started_us
        forecast = unit.rows[job_id].forecast or {}
        high_us = int(forecast.get("high_us", 0))
        attempt, told_us = self._told.get(job_id, (run.attempt, None))
        again_us = 0 if told_us is None or attempt != run.attempt else told_us + max(MIN_US, int(MIN_RATIO * told_us))
        if run.leaving or ran_us < again_us or not (is_blamed or ran_us > high_us):
            return
        self._told[job_id] = run.attempt, ran_us
        unit.record(job_id, "overrun", f"runs longer than predicted: now expected until {instant(end_us)}, "
                  f"in {show_us(end_us - unit.now_us)}", data={"end_us": end_us, "ran_us": ran_us})  # fmt: skip


def instant(at_us: int) -> str:
    """For a text that is read anywhere."""
    try:
        return datetime.fromtimestamp(at_us / US_PER_S, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return "far beyond"
