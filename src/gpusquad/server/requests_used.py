"""What a job requested by ``auto``, its estimator's answer, and what it used, in the form of the API."""

from __future__ import annotations

from sqlalchemy import Connection

from gpusquad.server.services.jobs.advice import use_of
from gpusquad.server.services.runtime.peaks import AttemptPeak, Peaks
from gpusquad.server.views import Plain, tasks_of
from gpusquad.spec.auto import parts_of
from gpusquad.store import run_forecasts
from gpusquad.store.jobs import JobRow

_MILLI = 1000
_NO_ANSWER = {"command": "", "fields": {}, "warning": "", "took_s": 0.0, "cached": False}


def requests_view(c: Connection, row: JobRow, peaks: Peaks) -> Plain:
    """The fields ``auto``, ``estimator`` and ``used`` of a job."""
    used = _used(c, row, peaks)
    resolved = row.resolved or {}
    choices = [_choice(one, used) for one in resolved.get("choices", ())]
    estimator = resolved.get("estimator")
    return {"auto": choices, "estimator": None if estimator is None else _NO_ANSWER | estimator, "used": used}


def _choice(stored: Plain, used: Plain | None) -> Plain:
    role, name = parts_of(stored["field"])
    amount = stored["amount"]
    if name == "cpu" and amount is not None:
        amount /= _MILLI
    is_known = used is not None and role is None  # peaks are measured of the largest task, whatever its role
    return stored | {"amount": amount, "used": used[name] if used is not None and is_known else None}


def _used(c: Connection, row: JobRow, peaks: Peaks) -> Plain | None:
    """Of the running attempt, else of the last one that ended. None: none held cards."""
    tasks = tasks_of(row)
    if row.state == "running":
        peak = peaks.now(row.id, row.attempt)
        return _peaks_view(row.attempt, peak, None if peak.cards is None else peak.cards / tasks)
    over = [attempt for attempt in run_forecasts.of_job(c, row.id) if attempt.settled_us is not None]
    if not over:
        return None
    last, use = over[-1], use_of(c, row.id)
    peak = AttemptPeak(last.peak_memory_bytes, cpu_milli=last.cpu_milli, host_memory_bytes=last.host_memory_bytes)
    cards = last.cards_used if use is None else len(use.busy) - use.idle
    return _peaks_view(last.attempt, peak, None if cards is None else cards / tasks)


def _peaks_view(attempt: int, peak: AttemptPeak, gpus: float | None) -> Plain:
    return {
        "attempt": attempt, "gpus": gpus, "gpu_memory": peak.memory_bytes,
        "cpu": None if peak.cpu_milli is None else peak.cpu_milli / _MILLI, "memory": peak.host_memory_bytes,
    }  # fmt: skip
