"""Records new and moved reservations as events, and as promises to compare with the actual starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from gpusquad.core.explain.forecast import promised_us
from gpusquad.core.state.runs import NEVER_US, is_foreseeable
from gpusquad.model.decision import Decision, Start
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.delays import WEAK, Delays
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store import events, forecasts, promises, start_forecasts
from gpusquad.store.forecasts import ForecastRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.promises import PromiseRow

REPORT_US = 60 * US_PER_S
LATE = "start_late"
"""Kind of the event of a job that did not start by the time that was promised first."""
REPORT_RATIO = 0.05
"""A later start is reported if it moved by more than both (the ratio applies to the time until the start)."""


class ReservationLog:
    """Records what each cycle reserved."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context
        self._reported: dict[str, int] = {}
        """Job to the start that was reported last."""
        self._promised: dict[str, int] = {}
        """Job to the start that was promised first, of this attempt."""
        self._late: set[str] = set()
        """Jobs whose reserved start has passed, which was reported."""
        self._delays = Delays()
        self.blamed: set[str] = set()
        """Words of the causes reported in this pass; they include the ids of jobs that delay others."""

    def restore(self, promised: Mapping[str, int]) -> None:
        """Promises and forecasts made before a restart are not recorded again."""
        self._promised.update(promised)
        self._delays.restored(promised)
        attempts = {job_id: row.attempt for job_id in promised if (row := self._context.rows.get(job_id)) is not None}
        with self._context.database.read() as c:
            reported = events.attempts_with(c, LATE, list(attempts))
            self._context.starts.restore(c)
        self._late |= {job_id for job_id, attempt in reported if attempts[job_id] == attempt}

    def record(self, unit: UnitOfWork, decisions: Sequence[Decision]) -> None:
        """Record starts and new or moved reservations of a cycle."""
        state = self._context.state
        causes = {job_id: why for job_id, _, _, why in state.delayed_starts}
        for decision in decisions:
            if isinstance(decision, Start):
                self._settle(unit, decision.job_id, causes.get(decision.job_id, state.last_replan_cause))
        state.delayed_starts.clear()
        self.blamed.clear()
        for job_id, reservation in state.timeline.reservations.items():
            if is_foreseeable(reservation.start_us, unit.now_us) and job_id in unit.rows:
                why = causes.get(job_id, state.last_replan_cause)
                self._reserved(unit, job_id, reservation.start_us, why)
        self._withdraw(unit)
        for job_id, by_us in self._promised.items():
            if unit.now_us - by_us > REPORT_US and job_id not in self._late:
                self._report_late(unit, job_id, by_us, causes.get(job_id, ""))

    def head_started(self, unit: UnitOfWork, job_id: str, delay_us: int) -> None:
        """Record the true delay of a head of the queue that has started."""
        if job_id in unit.rows:
            row = replace(_promise_of(unit.rows[job_id], unit.now_us), started_us=unit.now_us, head_delay_us=delay_us)
            unit.writes.append(partial(promises.set_head_delay, row=row))

    def _withdraw(self, unit: UnitOfWork) -> None:
        """Forget promises to jobs that their users cancelled or hold: a released one is promised a start again."""
        queue = self._context.state.queue
        for job_id in [job_id for job_id in self._promised if job_id not in queue]:
            del self._promised[job_id]
            self._late.discard(job_id)
            self._reported.pop(job_id, None)
            self._delays.forget(job_id)
            unit.writes.append(partial(promises.withdraw, job_id=job_id))

    def _reserved(self, unit: UnitOfWork, job_id: str, start_us: int, why: str) -> None:
        if job_id not in self._promised:
            self._promise(unit, job_id, start_us)
        self._delays.moved(unit, self._context.state, job_id, start_us, self._promised[job_id], why)
        before_us = self._reported.setdefault(job_id, start_us)
        if start_us - before_us > max(REPORT_US, int(REPORT_RATIO * (before_us - unit.now_us))):
            self._report_later(unit, job_id, start_us, why)

    def _promise(self, unit: UnitOfWork, job_id: str, start_us: int) -> None:
        """Record the first reservation of an attempt."""
        high_us = self._promised[job_id] = max(start_us, promised_us(self._context.state, job_id))
        self._reported[job_id] = start_us
        forecast = ForecastRow(job_id=job_id, made_us=unit.now_us, mid_us=start_us, high_us=high_us, truth_us=None)
        row = replace(_promise_of(unit.rows[job_id], unit.now_us), promised_us=high_us)
        unit.writes += [partial(forecasts.add, row=forecast), partial(promises.add, row=row)]
        unit.record(job_id, "promised", data={"start_us": start_us})

    def _report_later(self, unit: UnitOfWork, job_id: str, start_us: int, why: str) -> None:
        before_us, self._reported[job_id] = self._reported[job_id], start_us
        self.blamed.update(why.split())
        later = f"expected {show_us(start_us - before_us)} later than reported before"
        text = f"{with_names(why, unit, job_id)}: {later}" if why else later
        unit.record(job_id, "eta_moved", text, data={"start_us": start_us, "before_us": before_us})
        self._blame(unit, job_id)  # so that a restart does not lose it

    def _report_late(self, unit: UnitOfWork, job_id: str, by_us: int, why: str) -> None:
        """Once for each reservation that a job has lost: its start has passed, and the job still waits."""
        self._late.add(job_id)
        reservation = self._context.state.timeline.reservations.get(job_id)
        start_us = reservation.start_us if reservation is not None else NEVER_US
        text = f"was to start by {instant(by_us)}"
        if is_foreseeable(start_us, unit.now_us):
            text += f", now expected at {instant(start_us)}"
        cause = self._delays.largest(job_id)
        data = {"before_us": by_us, "start_us": start_us if start_us < NEVER_US else None}
        data |= {"code": cause.code} if cause is not None else {}
        unit.record(job_id, LATE, f"{with_names(why, unit, job_id)}: {text}" if why else text, data=data)

    def _settle(self, unit: UnitOfWork, job_id: str, why: str) -> None:
        reported_us = self._reported.pop(job_id, None)
        if reported_us is not None:
            self._context.observer.forecast_settled((unit.now_us - reported_us) / US_PER_S)
        unit.writes.append(lambda c: forecasts.settle(c, job_id, unit.now_us))
        self._late.discard(job_id)
        unit.writes.append(lambda c: start_forecasts.settle(c, job_id, unit.now_us))
        self._context.starts.settle(job_id, unit.now_us)
        promised = self._promised.pop(job_id, None)
        if promised is not None:
            self._delays.moved(unit, self._context.state, job_id, unit.now_us, promised, why)
            self._blame(unit, job_id)
            attempt = unit.rows[job_id].attempt
            unit.writes.append(lambda c: promises.settle(c, job_id, attempt, unit.now_us))
        self._delays.forget(job_id)

    def _blame(self, unit: UnitOfWork, job_id: str) -> None:
        cause, attempt = self._delays.largest(job_id), unit.rows[job_id].attempt
        if cause is not None:
            # What was found before a restart is better than a cause that is not known.
            unit.writes.append(lambda c: promises.blame(c, job_id, attempt, cause, keep=cause.code in WEAK))


def _promise_of(row: JobRow, now_us: int) -> PromiseRow:
    return PromiseRow(row.id, row.attempt, row.tenant, row.user, row.name, now_us)


def with_names(why: str, unit: UnitOfWork, job_id: str) -> str:
    """Replace job ids by the names of the jobs. Jobs of other tenants are named by id only."""
    return "; ".join(_named(part, unit, unit.rows[job_id].tenant) for part in why.split("; "))


def _named(why: str, unit: UnitOfWork, tenant: str) -> str:
    who, _, rest = why.partition(" ")
    row = unit.rows.get(who)
    if row is None:
        return why
    if row.tenant != tenant:
        return f"job {row.id} of another tenant {rest}"
    return f"{row.name} ({row.id}) of {row.user} {rest}" if row.name else f"{row.id} of {row.user} {rest}"


def instant(at_us: int) -> str:
    """Time in UTC, for readers in any time zone."""
    try:
        return datetime.fromtimestamp(at_us / US_PER_S, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return "an unknown time"
