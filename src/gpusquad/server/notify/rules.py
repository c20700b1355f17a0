"""Which events are worth a notice, and who gets it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.store.notices import RuleRow

NoticeKind = Literal[
    "queued", "started", "eta_moved", "finished", "failed", "hung", "preempted", "lost", "cancelled"
]  # fmt: skip
KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)

_BY_STATE: dict[str, NoticeKind] = {
    JobState.PENDING: "queued",
    JobState.RUNNING: "started",
    JobState.PREEMPTING: "preempted",
    JobState.LOST: "lost",
    JobState.SUCCEEDED: "finished",
    JobState.FAILED: "failed",
    JobState.TIMED_OUT: "failed",
    JobState.CANCELLED: "cancelled",
}
OTHER_WORDS: dict[str, NoticeKind] = {"succeeded": "finished", "timed_out": "failed", "delayed": "eta_moved"}
"""What job files may call some kinds: by the state that a job ends in."""
_BY_EVENT: dict[str, NoticeKind] = {"hung": "hung", "eta_moved": "eta_moved"}


def kind_of(event_kind: str, state: str, attempt: int) -> NoticeKind | None:
    """The notice an event deserves; None: nobody needs to hear of it."""
    if event_kind in _BY_EVENT:
        return _BY_EVENT[event_kind]
    # An event that brings a job into a state is named after it. Others ("updated", "requeued") only carry the state
    # along: a job whose priority changes while it runs has not started.
    if event_kind != state:
        return None
    kind = _BY_STATE.get(state)
    # In the queue again, after a retry: whoever asked to hear of the first time has.
    return None if kind == "queued" and attempt > 0 else kind


def receivers(kind: NoticeKind, user: str, asked: Sequence[str] | None, rules: Iterable[RuleRow]) -> list[RuleRow]:
    """The user's rules that want this kind. Kinds asked for in the job file replace those of the rules for that job."""
    wanted = {OTHER_WORDS.get(word, word) for word in asked or ()}
    return [rule for rule in rules if rule.user == user and kind in (wanted or rule.kinds)]


def check_kinds(kinds: object, field: str = "kinds") -> list[NoticeKind]:
    """Known kinds, each once, in our order."""
    if not isinstance(kinds, (list, tuple)) or not kinds:
        raise Invalid(field, "expected a list of kinds", f"known are {', '.join(KINDS)}")
    wanted = [OTHER_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    for kind in wanted:
        if kind not in KINDS:
            raise Invalid(field, f"{str(kind)[:40]!r} is not a kind of notice", f"known are {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in wanted]
