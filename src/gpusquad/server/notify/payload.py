"""A notice as data: what a webhook gets besides the text. Documented in docs/guide/administration.md."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from gpusquad.model.units import US_PER_S
from gpusquad.server.notify.messages import MAX_CAUSE_CHARS
from gpusquad.server.notify.reasons import code_of
from gpusquad.server.notify.rules import NoticeKind
from gpusquad.server.safe_text import one_line
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow

VERSION = 1
TEST_EVENT = "test"
AttemptTimes = tuple[int, int | None]
"""Start and end of an attempt."""


def payload_of(
    kind: NoticeKind, job: JobRow, event: EventRow, times: AttemptTimes | None, public_url: str
) -> dict[str, Any]:
    """``id`` is the same in every delivery of a notice, so that a receiver can recognise a repeated one."""
    started_us, ended_us = times or (None, None)
    if kind in ("finished", "failed", "cancelled"):
        ended_us = job.ended_us if ended_us is None else ended_us
    return {
        "version": VERSION,
        "id": f"{job.id}.{event.id}",
        "event": str(kind),
        "event_id": event.id,
        "job": {
            "id": job.id,
            "name": one_line(job.name),
            "tenant": job.tenant,
            "user": job.user,
            "group": job.group_id,
            "gpus": job.gpus,
            "state": str(event.state),
            "attempt": event.attempt,
        },
        "reason": {"code": code_of(kind, job, event), "text": one_line(event.cause, MAX_CAUSE_CHARS)},
        "times": {
            "submitted_s": _seconds(job.submitted_us),
            "started_s": _seconds(started_us),
            "ended_s": _seconds(ended_us),
            "at_s": _seconds(event.at_us),
        },
        "link": link_to(job.id, public_url),
    }


def test_payload(now_us: int) -> dict[str, Any]:
    """Data of the notice that tests a channel."""
    times = {"at_s": _seconds(now_us)}
    return {"version": VERSION, "id": f"{TEST_EVENT}.{now_us}", "event": TEST_EVENT, "times": times}


def link_to(job_id: str, public_url: str) -> str | None:
    """The job's page on the dashboard. None: nobody configured where the dashboard is."""
    return f"{public_url.rstrip('/')}/jobs/{quote(job_id)}" if public_url else None


def _seconds(at_us: int | None) -> float | None:
    return None if at_us is None else at_us / US_PER_S
