"""Text of a notice: what happened, why, and what to do. Plain text of bounded length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpusquad.model.units import US_PER_S
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


_HEADLINES: dict[NoticeKind, str] = {
    "queued": "is in the queue",
    "started": "has started",
    "eta_moved": "has a new expected start",
    "finished": "has finished",
    "failed": "has failed",
    "hung": "makes no progress",
    "preempted": "was preempted",
    "lost": "was lost",
    "cancelled": "was cancelled",
}
_CURES: dict[NoticeKind, str] = {
    "queued": "Nothing. gpusquad when {id} shows when it is expected to start.",
    "started": "Nothing. gpusquad logs {id} shows its output.",
    "eta_moved": "Nothing, if the new time suits you. gpusquad why {id} shows what it waits for.",
    "finished": "Nothing. gpusquad logs {id} shows its output.",
    "failed": "Read gpusquad logs {id}, fix the cause and run gpusquad resubmit {id}.",
    "hung": "Read gpusquad logs {id}. If it hangs, run gpusquad cancel {id}.",
    "preempted": "Nothing. It keeps its submit time, and continues from its last checkpoint if it writes any.",
    "lost": "Nothing yet. It is requeued if it is gone. gpusquad story {id} shows more.",
    "cancelled": "If this was not intended, run gpusquad resubmit {id}.",
}
_OUT_OF_MEMORY = "Request more memory (memory: in the job file) or use less, and run gpusquad resubmit {id}."


def write(kind: NoticeKind, job: JobRow, event: EventRow) -> NoticeMessage:
    """The notice of one kind about one job."""
    name = one_line(job.name, _MAX_NAME_CHARS) or job.id
    owner = f"{one_line(job.user, 60)} in {one_line(job.tenant, 60)}"
    size = f"{job.gpus} GPU{'' if job.gpus == 1 else 's'}"
    lines = [
        f"Job {name} ({job.id}) of {owner}, {size}, attempt {event.attempt + 1}.",
        _cause(event),
        _moved(event.data) if kind == "eta_moved" else "",
        _first_end(job.result) if kind == "failed" else "",
        f"What to do: {_cure(kind, job)}",
    ]
    title = one_line(f"{name} {_HEADLINES[kind]}", MAX_TITLE_CHARS)
    return NoticeMessage(title, "\n".join(line for line in lines if line))


def digest(titles: Sequence[str]) -> NoticeMessage:
    """Many notices in one, so that the end of a sweep does not send a thousand messages."""
    lines = [one_line(title, MAX_TITLE_CHARS) for title in titles[:DIGEST_LINES]]
    if len(titles) > DIGEST_LINES:
        lines.append(f"… and {len(titles) - DIGEST_LINES} more.")
    lines.append("What to do: gpusquad history lists them.")
    return NoticeMessage(f"{len(titles)} notices", "\n".join(lines))


def _cause(event: EventRow) -> str:
    cause = one_line(event.cause, MAX_CAUSE_CHARS)
    return f"Cause: {cause}" if cause else ""


def _cure(kind: NoticeKind, job: JobRow) -> str:
    text = _OUT_OF_MEMORY if kind == "failed" and (job.result or {}).get("oom") else _CURES[kind]
    return text.format(id=job.id)


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
