"""Answers why, when, what-if and queue queries from a copy of the state, without side effects on the scheduler."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from gpusquad.core.explain import explain
from gpusquad.core.explain.passed import passed_by
from gpusquad.core.state.limits import over_limit
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, is_foreseeable
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.transitions import JobState
from gpusquad.model.job import Job
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.units import show_count
from gpusquad.model.views import RunTimePrediction
from gpusquad.server.answers import (
    AccuracyAnswer,
    EndAnswer,
    HeldEntry,
    PendingSummary,
    QueueEntry,
    ReservedStart,
    RunTimeAccuracy,
    WhatIfAnswer,
    WhenAnswer,
    Who,
    WhyAnswer,
)
from gpusquad.server.errors import NotFound
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.intake import Intake
from gpusquad.server.services.prediction.accuracy import record_of
from gpusquad.server.services.queries.pending_summaries import (
    PendingSummaries,
    held_entries,
    held_for,
    reservations_of,
)
from gpusquad.server.services.queries.plan_forecast import MAX_PENDING, PendingReasons, PlanForecast, PlanForecaster
from gpusquad.server.services.runtime.records import forecast_of, places_of
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.spec.model import JobSpec
from gpusquad.store import forecasts, start_forecasts
from gpusquad.store.forecasts import ForecastRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.start_forecasts import StartForecastRow

STEPS = 2000
"""Replay steps for a query whose caller waits."""
REASONS_S = 0.05
"""CPU time for the reasons of one page of the queue. Jobs not reached get a shorter text."""
MAX_FORECASTS = 10_000
"""Forecasts kept until the next pass."""
_RECORD_US = 30 * 86_400 * 1_000_000


class QueryService:
    """Answers from any thread."""

    def __init__(self, context: SchedulerContext, intake: Intake) -> None:
        self._context = context
        self._intake = intake
        self.forecaster = PlanForecaster(context)
        """Forecast of the whole plan, for the queue table, summaries and the timeline."""
        self._forecasts: deque[ForecastRow] = deque(maxlen=MAX_FORECASTS)
        """Given to callers and not stored yet."""
        self._unstored: deque[StartForecastRow] = deque(maxlen=MAX_FORECASTS)
        """First forecasts of pending jobs that are judged later."""
        self._withdrawn: deque[str] = deque()
        """Jobs that left the queue without a start."""

    def why(self, job_id: str) -> WhyAnswer:
        row = self._context.rows.get(job_id)
        if row is None:
            raise NotFound(f"job {job_id} has ended or does not exist")
        if row.state == JobState.HELD:
            return WhyAnswer(None, held_for(row, self._context))
        reasons = self.forecaster.reasons()
        with self._context.lock:
            passed = passed_by(self._context.state, job_id)
        return WhyAnswer(reasons.position(job_id), reasons.of(job_id), passed)

    def when(self, job_id: str) -> WhenAnswer:
        row = self._context.rows.get(job_id)
        if row is None:
            raise NotFound(f"job {job_id} has ended or does not exist")
        forecast, accuracy = _or_none(forecast_of(row)), self._accuracy()
        record = None if forecast is None else self._record(row.tenant, forecast.source)
        if job_id not in self._context.state.queue:
            return WhenAnswer(None, row.started_us, row.started_us, None, forecast, accuracy, record,
                              self.forecaster.ends().get(job_id))  # fmt: skip
        made_us, eta = self.forecaster.eta(job_id)
        self._keep(job_id, made_us, eta)
        position = self.forecaster.reasons().position(job_id)
        return WhenAnswer(position, eta.start_us, eta.high_us, eta.promised_us, forecast, accuracy, record)

    def what_if(self, spec: JobSpec, who: Who) -> WhatIfAnswer:
        job, predicted = self._intake.imagine(spec, who)
        forecast, copy = predicted.forecast, self._context.copy_now()
        answer = explain.what_if(copy, job, forecast, STEPS)
        eta, waits = answer.eta, answer.refused is None and not answer.starts_now
        return WhatIfAnswer(
            answer.refused, answer.starts_now, eta.start_us, eta.high_us, eta.promised_us, _or_none(forecast),
            places_of(job, answer.placement, copy.space.fixed) if answer.placement else (),
            answer.delayed, answer.preempted, _why_if(copy, job, forecast) if waits else (),
        )  # fmt: skip

    def queue(self, offset: int = 0, limit: int = 100, tenant: str | None = None) -> list[QueueEntry]:
        """One page of the queue in order, with the first blocking reason of each job. Positions count all tenants."""
        plan = self.forecaster.latest()
        with self._context.lock:
            state = self._context.state
            if tenant is None:
                page = range(offset, min(offset + limit, len(state.queue)))
            else:
                mine = (at for at, waiting in enumerate(state.queue) if waiting.job.tenant == tenant)
                page = islice(mine, offset, offset + limit)
            entries = [_entry(state, state.queue.at(at), at + 1, plan) for at in page]
        return self._with_reasons(entries, len(state.queue))

    def _with_reasons(self, entries: list[QueueEntry], pending: int) -> list[QueueEntry]:
        """The first reason that ``why`` gives, for as many as can be computed in ``REASONS_S``."""
        if not entries or pending > MAX_PENDING:
            return entries
        reasons, until_s = self.forecaster.reasons(), time.thread_time() + REASONS_S
        return [_with_first(entry, _first_of(reasons, entry.job_id, until_s)) for entry in entries]

    def held(self, limit: int = 100, tenant: str | None = None) -> list[HeldEntry]:
        """Jobs that the service holds, oldest first, with their reasons."""
        return held_entries(self._context, limit, tenant)

    def ends(self) -> dict[str, EndAnswer]:
        """Predicted ends of running jobs, without those that are not known."""
        return self.forecaster.ends()

    def unfinished(self) -> list[JobRow]:
        """Rows of all jobs that have not ended."""
        return list(self._context.rows.values())

    def positions(self) -> dict[str, int]:
        with self._context.lock:
            return {waiting.job.id: at for at, waiting in enumerate(self._context.state.queue, 1)}

    def pending_summaries(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]:
        """Summaries of many pending jobs from one copy. Jobs not reached in ``most_s`` are left out."""
        return PendingSummaries(self._context, self.forecaster).of(job_ids, most_s)

    def reservations(self) -> dict[str, ReservedStart]:
        """Reservations of pending jobs."""
        with self._context.lock:
            return reservations_of(self._context.state)

    def _accuracy(self) -> AccuracyAnswer | None:
        with self._context.database.read() as connection:
            found = forecasts.accuracy(connection, self._context.clock.now_us() - _RECORD_US)
        if found.within_ratio is None or found.median_error_s is None or found.median_late_s is None:
            return None
        return AccuracyAnswer(found.count, found.within_ratio, found.median_error_s, found.median_late_s)

    def _record(self, tenant: str, source: str) -> RunTimeAccuracy | None:
        with self._context.database.read() as connection:
            return record_of(connection, tenant, source, self._context.clock.now_us())

    def keep_first_forecasts(self) -> None:
        """Keep the first forecast of every pending job, so that all starts are judged and not only those that somebody
        asked about. Call it at an interval, from one thread.
        """
        plan = self.forecaster.latest()
        if plan is None:
            return
        log = self._context.starts
        with self._context.lock:
            pending = {waiting.job.id for waiting in self._context.state.queue if waiting.attempt == 0}
            known = log.open
            new, gone = pending - known, known - pending
            log.forget(gone)
            for run in plan.runs:
                if run.owner.id in new:
                    row = StartForecastRow(run.owner.id, run.owner.tenant, plan.at_us, run.start_us, run.high_us)
                    log.made(row, run.owner.user)
                    self._unstored.append(row)
        self._withdrawn += gone
        if self._unstored or self._withdrawn:
            self._context.loop.post(lambda: None)  # a pass stores them

    def record_forecasts(self, unit: UnitOfWork) -> None:
        """Inside a pass: store the forecasts given since the last pass, to compare them with the actual starts. Queries
        themselves never write."""
        while self._forecasts:
            row = self._forecasts.popleft()
            if row.job_id in self._context.state.queue:  # otherwise it has started, and its forecasts were compared
                unit.writes.append(partial(forecasts.add, row=row))
        gone = [self._withdrawn.popleft() for _ in range(len(self._withdrawn))]
        if gone:
            unit.writes.append(partial(start_forecasts.withdraw, job_ids=gone))
        first = [self._unstored.popleft() for _ in range(len(self._unstored))]
        waiting = [row for row in first if row.job_id in self._context.state.queue]
        if waiting:
            unit.writes.append(partial(start_forecasts.add, rows=waiting))

    def _keep(self, job_id: str, now_us: int, eta: explain.Eta) -> None:
        if eta.start_us is None or eta.start_us >= NEVER_US:
            return
        high_us = eta.high_us if eta.high_us is not None else eta.start_us
        self._forecasts.append(ForecastRow(job_id, now_us, eta.start_us, high_us, None))


def _why_if(copy: SchedulerState, job: Job, forecast: RunTimePrediction) -> list[Reason]:
    """Why one more job would wait. Modifies the copy."""
    copy.enqueue(job, forecast)
    return next(reasons for _, reasons in explain.whys(copy, (job.id,), spend=True))


def _entry(state: SchedulerState, waiting: PendingJob, position: int, plan: PlanForecast | None) -> QueueEntry:
    job_id = waiting.job.id
    code, message = _first_blocker(state, waiting)
    eta = explain.Eta(None, None) if plan is None else plan.eta(job_id)
    reservation = state.timeline.reservations.get(job_id)
    promised_us = eta.promised_us
    if reservation is not None and is_foreseeable(reservation.start_us, state.now_us):
        promised_us = explain.promised_us(state, job_id)
    return QueueEntry(job_id, position, promised_us, eta.start_us, code, message, eta.high_us)


def _first_of(reasons: PendingReasons, job_id: str, until_s: float) -> list[Reason] | None:
    return reasons.of(job_id) if time.thread_time() < until_s else reasons.known(job_id)


def _with_first(entry: QueueEntry, reasons: list[Reason] | None) -> QueueEntry:
    if reasons is None:
        return entry
    if not reasons:
        return replace(entry, code="", message="")
    return replace(entry, code=str(reasons[0].code), message=reasons[0].message)


def _first_blocker(state: SchedulerState, waiting: PendingJob) -> tuple[str, str]:
    """First blocking reason, cheap enough for a table; ``why`` gives all."""
    job = waiting.job
    if waiting.blocked:
        over = over_limit(state, job)
        if over is not None:
            kind, name, held, limit = over
            code = ReasonCode.TENANT_LIMIT if kind == "tenant" else ReasonCode.LANE_LIMIT
            return str(code), f"{kind} {name} holds {held} of at most {show_count(limit, 'GPU')}"
    needed, idle = job.gang.min_gpus, state.space.idle_total
    if needed > idle:
        return str(ReasonCode.NO_CARDS), f"needs {needed} GPU{'s' * (needed != 1)}, {idle} idle"
    if not state.space.fits(job):
        return str(ReasonCode.NO_BLOCK), f"needs {needed} GPU{'s' * (needed != 1)} together, {idle} idle apart"
    return str(ReasonCode.BEHIND), "would delay jobs ahead"


def _or_none(forecast: RunTimePrediction) -> RunTimePrediction | None:
    return None if forecast.mid_us >= NEVER_US else forecast
