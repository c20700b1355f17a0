"""Why a notice was sent, as a short code that a program can compare."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpusquad.core.transitions import JobState
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow

if TYPE_CHECKING:
    from gpusquad.server.notify.rules import NoticeKind

OUT_OF_MEMORY, TIMED_OUT, SIGNAL, EXIT_CODE = "out_of_memory", "timed_out", "signal", "exit_code"
HANG = "hang:"
"""Prefix of the name of a rule of hang detection."""
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
_STOPPED_BY = re.compile(r"hung by rule ([a-z_]{1,40})\b")


def code_of(kind: NoticeKind, job: JobRow, event: EventRow) -> str:
    """The event's own code if it has one; otherwise by kind and result."""
    given = (event.data or {}).get("code")
    if isinstance(given, str) and _CODE.fullmatch(given):
        return given
    if kind == "failed":
        return _failure(job, event)
    rule = hang_rule(event)
    return f"{HANG}{rule}" if kind == "hung" and rule else kind


def hang_rule(event: EventRow) -> str:
    """Rule of hang detection that an event is about; empty: none."""
    rule = (event.data or {}).get("rule")
    if isinstance(rule, str):
        return rule if _CODE.fullmatch(rule) else ""
    found = _STOPPED_BY.match(event.cause)
    return found[1] if found else ""


def _failure(job: JobRow, event: EventRow) -> str:
    if event.state == JobState.TIMED_OUT:
        return TIMED_OUT
    rule = hang_rule(event)
    if rule:
        return f"{HANG}{rule}"
    result = job.result or {}
    if result.get("oom"):
        return OUT_OF_MEMORY
    if result.get("signal"):
        return SIGNAL
    return EXIT_CODE if result.get("exit_code") else "failed"
