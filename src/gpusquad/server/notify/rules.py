"""Which events cause a notice, and who gets it. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.notices import RuleRow

NoticeKind = Literal[
    "queued", "started", "eta_moved", "start_late", "finished", "failed", "held", "retried", "hung", "overrun",
    "preempted", "lost", "cancelled",
]  # fmt: skip
KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)
INBOX_KINDS: frozenset[NoticeKind] = frozenset({
    "started", "eta_moved", "start_late", "finished", "failed", "held", "retried", "hung", "overrun", "lost",
    "cancelled",
})  # fmt: skip
"""What every inbox gets, some of them under a condition (``is_news``)."""
LONG_WAIT_US = 600 * US_PER_S
"""A start is news in the inbox if the job waited for this long."""
MUCH_LATER_US, MUCH_LATER_RATIO = 600 * US_PER_S, 0.25
"""A moved start is news in the inbox if it moved by more than both (the ratio applies to the time until the start)."""
STOP = "stop"
"""Action of hang detection that ends an attempt."""
LOSSES = "losses"
"""Data of the events of a job that is lost again: the recent losses, with this one."""
OVERRUN = "overrun"
"""Rule of hang detection that is no hang."""

_BY_STATE: dict[str, NoticeKind] = {
    JobState.PENDING: "queued",
    JobState.RUNNING: "started",
    JobState.HELD: "held",
    JobState.PREEMPTING: "preempted",
    JobState.LOST: "lost",
    JobState.SUCCEEDED: "finished",
    JobState.FAILED: "failed",
    JobState.TIMED_OUT: "failed",
    JobState.CANCELLED: "cancelled",
}
OTHER_WORDS: dict[str, NoticeKind] = {"succeeded": "finished", "timed_out": "failed", "delayed": "eta_moved"}
"""Aliases of kinds in job files, by the final state of a job."""
_BY_EVENT: dict[str, NoticeKind] = {
    "hung": "hung", "overrun": "overrun", "eta_moved": "eta_moved", "start_late": "start_late", "retry": "retried",
    "suspected": "held",
}  # fmt: skip


def kind_of(
    event_kind: str, state: str, attempt: int, data: Mapping[str, Any] | None = None, cause: str = ""
) -> NoticeKind | None:
    """Kind of notice for an event. None: no notice."""
    if event_kind in _BY_EVENT:
        if (data or {}).get("action") == STOP:
            return None  # the end of the attempt, which follows, says so
        if event_kind == "retry" and LOSSES in (data or {}):
            return "lost"  # it has not failed
        is_overrun = event_kind == "hung" and (data or {}).get("rule") == OVERRUN
        return "overrun" if is_overrun else _BY_EVENT[event_kind]
    if event_kind in (JobState.LOST, "requeued") and LOSSES in (data or {}):
        # A job that was lost before waits for its next attempt. The end of this one, which follows, says how long.
        return "lost" if event_kind == "requeued" else None
    # An event that moves a job into a state is named after it. Others ("updated", "requeued") only carry the state: a
    # job whose priority changes while it runs has not started.
    if event_kind != state:
        return None
    kind = _BY_STATE.get(state)
    # Requeued after a retry: the notice of the first time was sent.
    if kind == "queued" and attempt > 0:
        return None
    # Submitted with dependencies: its user knows what it waits for.
    return None if kind == "held" and not cause else kind


def is_news(kind: NoticeKind, job: JobRow, event: EventRow) -> bool:
    """Whether the inbox of the job's user gets it, without any rule."""
    if kind in {OTHER_WORDS.get(word, word) for word in job.spec.get("notify") or ()}:
        return True
    if kind == "started":
        return event.attempt == 0 and event.at_us - job.submitted_us >= LONG_WAIT_US
    if kind == "eta_moved":
        return _moved_much(event)
    if kind in ("held", "cancelled"):
        return event.actor != job.user or not _is_own_wish(event)
    return kind in INBOX_KINDS


def receivers(kind: NoticeKind, user: str, asked: Sequence[str] | None, rules: Iterable[RuleRow]) -> list[RuleRow]:
    """The user's rules for this kind, one for each channel. Kinds given in the job file replace those of the rules for
    that job."""
    wanted = {OTHER_WORDS.get(word, word) for word in asked or ()}
    found: dict[str, RuleRow] = {}
    for rule in rules:
        if rule.user == user and kind in (wanted or rule.kinds):
            found.setdefault(rule.url, rule)
    return list(found.values())


def check_kinds(kinds: object, field: str = "kinds") -> list[NoticeKind]:
    """Known kinds, each once, in our order."""
    if not isinstance(kinds, (list, tuple)) or not kinds:
        raise Invalid(field, "is not a list of kinds", f"choose from {', '.join(KINDS)}")
    wanted = [OTHER_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    for kind in wanted:
        if kind not in KINDS:
            raise Invalid(field, f"{str(kind)[:40]!r} is not a kind of notice", f"choose from {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in wanted]


def _moved_much(event: EventRow) -> bool:
    start_us, before_us = (event.data or {}).get("start_us"), (event.data or {}).get("before_us")
    if not isinstance(start_us, int) or not isinstance(before_us, int):
        return True
    return start_us - before_us > max(MUCH_LATER_US, MUCH_LATER_RATIO * (before_us - event.at_us))


def _is_own_wish(event: EventRow) -> bool:
    """On a cluster the user is also the actor of jobs that are held because they cannot run."""
    return event.kind == JobState.CANCELLED or event.cause == f"held by {event.actor}"
