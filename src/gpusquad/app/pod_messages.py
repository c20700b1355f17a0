"""Texts of events and conditions on pods. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from gpusquad.engines.kubernetes.status.gang_writer import nodes_text
from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, StatusMessage, without_numbers
from gpusquad.model.reasons import Reason
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.answers import PendingSummary, ReservedStart
from gpusquad.server.services.runtime.records import job_of
from gpusquad.store.jobs import JobRow

_DAY_US = 86_400 * US_PER_S
_SOON_US = US_PER_S
JobNames = Callable[[str], str]
"""Maps a job id to the name of the job. Empty: the reader may not see it."""


def pending(row: JobRow, summary: PendingSummary, now_us: int, name_of: JobNames) -> StatusMessage:
    """Why the job is pending: every reason with its cure, then the position in the queue and the expected start.

    Position and start change often, so they are not in the gist.
    """
    reasons = [_reason(reason, name_of) for reason in summary.reasons]
    why = " | ".join(reasons) or "no blocking reason; expected to start in the next scheduling cycle"
    message = f"{_gang_prefix(row)}{why}{_requeue_cause(row)}"
    forecast = _position_and_start(summary, now_us)
    return StatusMessage(
        FAILED_SCHEDULING,
        f"{message} | {forecast}" if forecast else message,
        is_why=True,
        gist=without_numbers(message),
    )


def reserved(row: JobRow, reservation: ReservedStart, now_us: int) -> StatusMessage:
    where = f", on {nodes_text(reservation.nodes)}" if reservation.nodes else ""
    message = (
        f"{_gang_prefix(row)}{_gpus(row)} reserved from {clock(reservation.latest_us, now_us)} or earlier{where}; "
        "other jobs may be backfilled until then"
    )
    return StatusMessage("Reserved", message, is_warning=False)


def moved(row: JobRow, cause: str, start_us: int, now_us: int) -> StatusMessage:
    return StatusMessage(
        "ReservationMoved", f"{_gang_prefix(row)}start now expected at {clock(start_us, now_us)}: {cause}"
    )


def preempted(row: JobRow, cause: str) -> StatusMessage:
    return StatusMessage("Preempted", f"{_gang_prefix(row)}preempted {cause}; requeued with its original submit time")


def preempting(row: JobRow, victim: JobRow, cause: str) -> StatusMessage:
    """For the job that gets the cards. It does not show the names of other tenants' jobs."""
    victim_name = (victim.name or victim.id) if victim.tenant == row.tenant else "a job of another tenant"
    rule = cause.partition(": ")[2] or cause
    return StatusMessage(
        "Preempting", f"{_gang_prefix(row)}{victim_name} is being preempted ({_gpus(victim)}): {rule}", is_warning=False
    )


def stopped(row: JobRow, cause: str) -> StatusMessage:
    how = (row.stop or {}).get("how", "")
    reason = "Cancelled" if how == "cancelled" else "Stopped"
    return StatusMessage(reason, f"{_gang_prefix(row)}{cause or how}")


def evicted(row: JobRow, cause: str) -> StatusMessage:
    return StatusMessage("Evicted", f"{_gang_prefix(row)}{cause}; requeued")


def restricted(row: JobRow, cause: str) -> StatusMessage:
    """The tenant has no right to the priority or the lane that its pods name."""
    return StatusMessage("NotPermitted", f"{_gang_prefix(row)}{cause}")


def clock(at_us: int, now_us: int) -> str:
    """``14:05 UTC (in 25 min)``. UTC, because readers may be in other time zones than the service."""
    at = datetime.fromtimestamp(at_us / US_PER_S, UTC)
    text = at.strftime("%H:%M UTC" if at_us - now_us < _DAY_US else "%Y-%m-%d %H:%M UTC")
    ahead_us = at_us - now_us
    return f"{text} (in {show_us(ahead_us // US_PER_S * US_PER_S)})" if ahead_us >= _SOON_US else f"{text} (any moment)"


def _position_and_start(summary: PendingSummary, now_us: int) -> str:
    parts = [f"position {summary.position} in the queue"] if summary.position is not None else []
    if summary.reservation is not None:
        parts.append(f"reserved from {clock(summary.reservation.latest_us, now_us)} or earlier")
    if summary.eta_us is not None:
        parts.append(f"expected to start at {clock(summary.eta_us, now_us)}")
    return ", ".join(parts)


def _reason(reason: Reason, name_of: JobNames) -> str:
    """The reason and its cure, with names instead of the ids of jobs."""
    text = str(reason)
    for job_id in reason.who:
        name = name_of(job_id)
        if name:
            text = text.replace(job_id, name)
    return text


def _requeue_cause(row: JobRow) -> str:
    """Why the previous attempt of the job ended."""
    return f" | requeued: {row.cause}" if row.attempt and row.cause and row.state == "pending" else ""


def _gang_prefix(row: JobRow) -> str:
    tasks = job_of(row).tasks
    return f"gang {row.name or row.id} ({tasks} pods): " if tasks > 1 else ""


def _gpus(row: JobRow) -> str:
    return f"{row.gpus} GPU{'s' * (row.gpus != 1)}" if row.gpus else "its resources"


def names_for(tenant: str, rows: Iterable[JobRow]) -> JobNames:
    """Names for readers of this tenant: only its own jobs have one."""
    names = {row.id: row.name for row in rows if row.tenant == tenant and row.name}
    return lambda job_id: names.get(job_id, "")
