"""Reports runs that take longer than predicted, with their new predicted end, as events."""

from __future__ import annotations

from gpusquad.core.state.runs import is_foreseeable
from gpusquad.model.prediction import PRIOR
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.reservations import ReservationLog, instant
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork

MIN_US = 60 * US_PER_S
MIN_RATIO = 0.25
"""A run is reported once it exceeds its high prediction by both, and again once it exceeds the last report by both."""
MIN_BLAMED_US = 10 * US_PER_S
"""A run that delays another job is reported once its new end is later than predicted by this much."""


class Overruns:
    """Watches runs whose predicted end each cycle moved later.

    Half of all runs exceed their predicted median, which is no news. A run is reported once it clearly exceeds its
    predicted P90, or as soon as it delays another job.
    """

    def __init__(self, context: SchedulerContext, reservations: ReservationLog) -> None:
        self._context = context
        self._reservations = reservations
        self._reported: dict[str, tuple[int, int]] = {}
        """Job to its attempt and its run time at the last report."""

    def record(self, unit: UnitOfWork) -> None:
        """Record runs whose predicted end the cycle moved later."""
        state = self._context.state
        for job_id, end_us in state.later_ends.items():
            if job_id in unit.rows and job_id in state.runs and is_foreseeable(end_us, unit.now_us):
                self._moved(unit, job_id, end_us, job_id in self._reservations.blamed)
        state.later_ends.clear()
        for job_id in [job_id for job_id in self._reported if job_id not in unit.rows]:
            del self._reported[job_id]

    def _moved(self, unit: UnitOfWork, job_id: str, end_us: int, is_blamed: bool) -> None:
        run = self._context.state.runs[job_id]
        ran_us = unit.now_us - run.started_us
        forecast = unit.rows[job_id].forecast or {}
        attempt, reported_us = self._reported.get(job_id, (run.attempt, None))
        again_us = 0 if reported_us is None or attempt != run.attempt else _clearly_over(reported_us)
        # By a prior, nobody overruns.
        is_overrun = ran_us > _clearly_over(int(forecast.get("high_us", 0))) and forecast.get("source") != PRIOR
        late_us = end_us - run.started_us - int(forecast.get("mid_us", 0))
        delays_others = is_blamed and late_us >= MIN_BLAMED_US
        if run.leaving or ran_us < again_us or not (delays_others or is_overrun):
            return
        self._reported[job_id] = run.attempt, ran_us
        text = (
            f"runs longer than predicted: now expected to end at {instant(end_us)}, in {show_us(end_us - unit.now_us)}"
        )
        unit.record(job_id, "overrun", text, data={"end_us": end_us, "ran_us": ran_us})


def _clearly_over(run_us: int) -> int:
    """Run time from which a run is news that was predicted, or last reported, to take ``run_us``."""
    return run_us + max(MIN_US, int(MIN_RATIO * run_us))
