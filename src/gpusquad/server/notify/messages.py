"""Text of a notice: what happened, why, and what to do. Plain text of bounded length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpusquad.core.transitions import JobState
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.notify.reasons import HANG, OUT_OF_MEMORY, TIMED_OUT, code_of, hang_rule
from gpusquad.server.notify.rules import NoticeKind
from gpusquad.server.safe_text import one_line
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow

MAX_TITLE_CHARS = 120
MAX_CAUSE_CHARS = 500
DIGEST_LINES = 20
_MAX_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class NoticeMessage:
    """A notice, ready to send."""

    title: str
    body: str
    payload: Mapping[str, Any] | None = None
    """The notice as data, for channels that carry it."""


HEADLINES: dict[NoticeKind, str] = {
    "queued": "is in the queue",
    "started": "has started",
    "eta_moved": "has a later expected start",
    "start_late": "starts later than reserved",
    "finished": "has finished",
    "failed": "has failed",
    "held": "is held",
    "retried": "has failed and is tried again",
    "hung": "may be hanging",
    "overrun": "runs longer than predicted",
    "preempted": "was preempted",
    "lost": "was lost",
    "cancelled": "was cancelled",
}
_HANG_HEADLINES = {
    "silent": "shows no sign of life",
    "spinning": "is busy without progress",
    "stopped": "has a process that was stopped by a signal",
    "stuck": "repeats the same step",
    "repeats": "repeats its output",
    "nan": "reports losses that are not numbers",
    "flood": "floods its output",
    "overrun": "runs far longer than predicted",
}
"""By rule of hang detection. Other rules are named."""
_CURES: dict[NoticeKind, str] = {
    "queued": "Nothing. gpusquad when {id} shows when it is expected to start.",
    "started": "Nothing. gpusquad logs {id} shows its output.",
    "eta_moved": "Nothing, if the new time suits you. gpusquad why {id} shows what it waits for.",
    "start_late": "Nothing, if you can wait. gpusquad why {id} shows what it waits for.",
    "finished": "Nothing. gpusquad logs {id} shows its output.",
    "failed": "Read gpusquad logs {id}, fix the cause and run gpusquad resubmit {id}.",
    "held": "Read the cause with gpusquad why {id}. When it is gone, run gpusquad release {id}.",
    "retried": "Nothing yet. gpusquad logs {id} shows what failed.",
    "hung": "Read gpusquad logs {id}. If it hangs, run gpusquad cancel {id}.",
    "overrun": "Nothing, if this is right. gpusquad update {id} changes its estimate or its limit.",
    "preempted": "Nothing. It keeps its submit time, and continues from its last checkpoint if it writes any.",
    "lost": "Nothing yet. It is requeued if it is gone. gpusquad story {id} shows more.",
    "cancelled": "If this was not intended, run gpusquad resubmit {id}.",
}
_FAILED_CURES = {
    OUT_OF_MEMORY: "Request more memory (memory: in the job file) or use less, and run gpusquad resubmit {id}.",
    TIMED_OUT: "Raise its time limit (limit: in the job file) if it needs longer, and run gpusquad resubmit {id}.",
}


def write(kind: NoticeKind, job: JobRow, event: EventRow) -> NoticeMessage:
    """The notice of one kind about one job."""
    owner = f"{one_line(job.user, 60)} in {one_line(job.tenant, 60)}"
    size = f"{job.gpus} GPU{'' if job.gpus == 1 else 's'}"
    lines = [
        f"Job {name_of(job)} ({job.id}) of {owner}, {size}, attempt {event.attempt + 1}.",
        _cause(event),
        _moved(event.data) if kind in ("eta_moved", "start_late") else "",
        _first_end(job.result) if kind == "failed" else "",
        f"What to do: {_cure(kind, job, event)}",
    ]
    title = one_line(f"{name_of(job)} {_headline(kind, job, event)}", MAX_TITLE_CHARS)
    return NoticeMessage(title, "\n".join(line for line in lines if line))


def name_of(job: JobRow) -> str:
    """Name for a title: the job's own, or its id."""
    return one_line(job.name, _MAX_NAME_CHARS) or job.id


def digest(titles: Sequence[str]) -> NoticeMessage:
    """Many notices in one, so that the end of a sweep does not send a thousand messages."""
    lines = [one_line(title, MAX_TITLE_CHARS) for title in titles[:DIGEST_LINES]]
    if len(titles) > DIGEST_LINES:
        lines.append(f"… and {len(titles) - DIGEST_LINES} more.")
    lines.append("What to do: gpusquad inbox and gpusquad history list them.")
    return NoticeMessage(f"{len(titles)} notices", "\n".join(lines))


def _headline(kind: NoticeKind, job: JobRow, event: EventRow) -> str:
    if kind == "hung":
        return hang_headline(hang_rule(event), event.data)
    if kind == "failed":
        code = code_of(kind, job, event)
        if code == TIMED_OUT:
            return "was stopped at its time limit"
        if code.startswith(HANG):
            return f"was stopped: {hang_headline(hang_rule(event), event.data)}"
    if kind == "lost" and event.state != JobState.LOST:
        wait_us = (event.data or {}).get("wait_us")
        return f"was lost and is tried again{f' in {show_us(wait_us)}' if isinstance(wait_us, int) else ''}"
    return HEADLINES[kind]


def hang_headline(rule: str, data: Mapping[str, Any] | None) -> str:
    """Says what the rule found, by the rule's own title if its event has one."""
    title = (data or {}).get("title")
    if isinstance(title, str) and title:
        return one_line(title, MAX_TITLE_CHARS)
    if rule in _HANG_HEADLINES:
        return _HANG_HEADLINES[rule]
    return f"{HEADLINES['hung']} (rule {one_line(rule, 40)})" if rule else HEADLINES["hung"]


def _cause(event: EventRow) -> str:
    cause = one_line(event.cause, MAX_CAUSE_CHARS)
    return f"Cause: {cause}" if cause else ""


def _cure(kind: NoticeKind, job: JobRow, event: EventRow) -> str:
    by_code = _FAILED_CURES.get(code_of(kind, job, event)) if kind == "failed" else None
    return (by_code or _CURES[kind]).format(id=job.id)


def _first_end(result: Mapping[str, Any] | None) -> str:
    """Which task failed first, and how."""
    if not result or result.get("task") is None:
        return ""
    if result.get("oom"):
        how = "ran out of memory"
    elif result.get("signal"):
        how = f"was ended by signal {result['signal']}"
    else:
        how = f"ended with exit code {result.get('exit_code')}"
    return one_line(f"Task {result['task']} {how} first.", 120)


def _moved(data: Mapping[str, Any] | None) -> str:
    start, before = _time((data or {}).get("start_us")), _time((data or {}).get("before_us"))
    if not start:
        return ""
    return f"Expected start: {start}" + (f" (before: {before})." if before else ".")


def _time(at_us: object) -> str:
    if not isinstance(at_us, int):
        return ""
    try:
        return datetime.fromtimestamp(at_us / US_PER_S, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return ""
