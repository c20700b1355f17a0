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
Named = Callable[[str], str]
"""The name of a job by its id, if the reader may see it; otherwise empty."""


def why(row: JobRow, outlook: PendingSummary, now_us: int, named: Named) -> StatusMessage:
    """Every reason with its cure, then the position in the queue and the expected start."""
    reasons = [_reason(reason, named) for reason in outlook.reasons]
    told = " | ".join(reasons) or "no blocking reason; expected to start in the next scheduling cycle"
    before = _before(row)
    message = f"{_who(row)}{told}{before}"
    after = _line(outlook, now_us)
    return StatusMessage(FAILED_SCHEDULING, f"{message} | {after}" if after else message, is_why=True,
                  gist=without_numbers(message))  # fmt: skip


def reserved(row: JobRow, promised: ReservedStart, now_us: int) -> StatusMessage:
    where = f", on {nodes_text(promised.nodes)}" if promised.nodes else ""
    message = (
        f"{_who(row)}{_gpus(row)} reserved from {clock(promised.latest_us, now_us)} or earlier{where}; "
        "other jobs may be backfilled until then"
    )
    return StatusMessage("Reserved", message, is_warning=False)


def moved(row: JobRow, cause: str, start_us: int, now_us: int) -> StatusMessage:
    return StatusMessage("ReservationMoved", f"{_who(row)}start now expected at {clock(start_us, now_us)}: {cause}")


def preempted(row: JobRow, cause: str) -> StatusMessage:
    return StatusMessage("Preempted", f"{_who(row)}preempted {cause}; requeued with its original submit time")


def preempting(row: JobRow, victim: JobRow, cause: str) -> StatusMessage:
    """For the job that gets the cards. It does not show the names of other tenants' jobs."""
    who = (victim.name or victim.id) if victim.tenant == row.tenant else "a job of another tenant"
    rule = cause.partition(": ")[2] or cause
    return StatusMessage(
        "Preempting", f"{_who(row)}{who} is being preempted ({_gpus(victim)}): {rule}", is_warning=False
    )


def stopped(row: JobRow, cause: str) -> StatusMessage:
    how = (row.stop or {}).get("how", "")
    reason = "Stopped" if how == "timed_out" else "Cancelled" if how == "cancelled" else "Stopped"
    return StatusMessage(reason, f"{_who(row)}{cause or how}")


def evicted(row: JobRow, cause: str) -> StatusMessage:
    return StatusMessage("Evicted", f"{_who(row)}{cause}; requeued")


def clock(at_us: int, now_us: int) -> str:
    """``14:05 UTC (in 25 min)``. UTC, because readers may be in other time zones than the service."""
    at = datetime.fromtimestamp(at_us / US_PER_S, UTC)
    text = at.strftime("%H:%M UTC" if at_us - now_us < _DAY_US else "%Y-%m-%d %H:%M UTC")
    ahead_us = at_us - now_us
    return f"{text} (in {show_us(ahead_us // US_PER_S * US_PER_S)})" if ahead_us >= _SOON_US else f"{text} (any moment)"


def _line(outlook: PendingSummary, now_us: int) -> str:
    parts = [f"position {outlook.position} in the queue"] if outlook.position is not None else []
    if outlook.promised is not None:
        parts.append(f"reserved from {clock(outlook.promised.latest_us, now_us)} or earlier")
    if outlook.eta_us is not None:
        parts.append(f"expected to start at {clock(outlook.eta_us, now_us)}")
    return ", ".join(parts)


def _reason(reason: Reason, named: Named) -> str:
    text = str(reason)
    for job_id in reason.who:
        name = named(job_id)
        if name:
            text = text.replace(job_id, name)
    return text


def _before(row: JobRow) -> str:
    """Why its previous attempt ended."""
    return f" | requeued: {row.cause}" if row.attempt and row.cause and row.state == "pending" else ""


def _who(row: JobRow) -> str:
    tasks = job_of(row).tasks
    return f"gang {row.name or row.id} ({tasks} pods): " if tasks > 1 else ""


def _gpus(row: JobRow) -> str:
    return f"{row.gpus} GPU{'s' * (row.gpus != 1)}" if row.gpus else "its resources"


def names_for(tenant: str, rows: Iterable[JobRow]) -> Named:
    """Jobs of the same tenant by name; jobs of others keep their ids."""
    known = {row.id: row.name for row in rows if row.tenant == tenant and row.name}
    return lambda job_id: known.get(job_id, "")
