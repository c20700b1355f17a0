"""Reasons and forecast starts of many pending jobs, computed beside the scheduler from one copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from heapq import nsmallest

from gpusquad.core.state.runs import NEVER_US, is_foreseeable
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import Reservation
from gpusquad.core.transitions import JobState
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.server.answers import HeldEntry, PendingSummary, ReservedStart
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.holds import is_held_by_service, reasons_held
from gpusquad.server.services.queries.plan_forecast import PlanForecaster
from gpusquad.server.services.runtime.records import seats_of
from gpusquad.store.jobs import JobRow


class PendingSummaries:
    """Summaries of many jobs."""

    def __init__(self, context: SchedulerContext, forecaster: PlanForecaster) -> None:
        self._context = context
        self._forecaster = forecaster

    def of(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]:
        """As many as can be computed in ``most_s`` after the copy is made, at least one."""
        found: dict[str, PendingSummary] = {}
        pending: list[str] = []
        for job_id in job_ids:
            row = self._context.rows.get(job_id)
            if row is not None and row.state == JobState.HELD:
                found[job_id] = PendingSummary(None, held_for(row, self._context))
            elif row is not None and row.state == JobState.PENDING:
                pending.append(job_id)
        return found | (self._pending(pending, most_s) if pending else {})

    def _pending(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]:
        plan, reasons = self._forecaster.latest(), self._forecaster.reasons()
        state = reasons.state
        found: dict[str, PendingSummary] = {}
        until_s = time.monotonic() + most_s
        for job_id in job_ids:
            if job_id not in state.queue:
                continue
            reservation = _reserved(state.timeline.reservations.get(job_id), state)
            eta_us = None if plan is None else plan.eta(job_id).start_us
            if eta_us is None and reservation is not None:
                eta_us = reservation.start_us
            found[job_id] = PendingSummary(reasons.position(job_id), reasons.of(job_id), eta_us, reservation)
            if time.monotonic() > until_s:
                break
        return found


def reservations_of(state: SchedulerState) -> dict[str, ReservedStart]:
    """Of all pending jobs."""
    found = ((job_id, _reserved(one, state)) for job_id, one in state.timeline.reservations.items())
    return {job_id: reserved for job_id, reserved in found if reserved is not None}


def held_entries(context: SchedulerContext, limit: int, tenant: str | None) -> list[HeldEntry]:
    """Jobs that the service holds, oldest first: suspected ones, and those that wait for their next attempt or their
    estimator."""
    rows = [row for row in list(context.rows.values()) if is_held_by_service(row) and tenant in (None, row.tenant)]
    oldest = nsmallest(limit, rows, key=lambda row: (row.submitted_us, row.sequence))
    return [HeldEntry(row.id, "; ".join(reason.message for reason in held_for(row, context))) for row in oldest]


def held_for(row: JobRow, context: SchedulerContext) -> list[Reason]:
    """Why a held job is not in the queue."""
    now_us, max_losses = context.clock.now_us(), context.containment.max_losses
    reasons = reasons_held(row, now_us, max_losses, row.id in context.estimating)
    return [Reason(ReasonCode.HELD, text, _cure(text, row)) for text in reasons]


def _cure(text: str, row: JobRow) -> str:
    if text == row.cause:
        return ""  # the reason names the cure itself
    if "next attempt" in text:
        return "wait, or try it now with gpusquad release"
    return "release it" if "held by" in text else "wait"


def _reserved(reservation: Reservation | None, state: SchedulerState) -> ReservedStart | None:
    if reservation is None or not is_foreseeable(reservation.start_us, state.now_us):
        return None
    nodes: tuple[str, ...] = ()
    if reservation.placement is not None:
        nodes = tuple(seat.node for seat in seats_of(reservation.job, reservation.placement, state.space.fixed))
    latest_us = reservation.first_us if reservation.first_us < NEVER_US else reservation.start_us
    return ReservedStart(reservation.start_us, max(reservation.start_us, latest_us), nodes)
