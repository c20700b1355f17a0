"""Which events cause a notice, and who gets it. Pure functions."""

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
"""Aliases of kinds in job files, by the final state of a job."""
_BY_EVENT: dict[str, NoticeKind] = {"hung": "hung", "eta_moved": "eta_moved"}


def kind_of(event_kind: str, state: str, attempt: int) -> NoticeKind | None:
    """Kind of notice for an event. None: no notice."""
    if event_kind in _BY_EVENT:
        return _BY_EVENT[event_kind]
    # An event that moves a job into a state is named after it. Others ("updated", "requeued") only carry the state: a
    # job whose priority changes while it runs has not started.
    if event_kind != state:
        return None
    kind = _BY_STATE.get(state)
    # Requeued after a retry: the notice of the first time was sent.
    return None if kind == "queued" and attempt > 0 else kind


def receivers(kind: NoticeKind, user: str, asked: Sequence[str] | None, rules: Iterable[RuleRow]) -> list[RuleRow]:
    """The user's rules for this kind. Kinds given in the job file replace those of the rules for that job."""
    wanted = {OTHER_WORDS.get(word, word) for word in asked or ()}
    return [rule for rule in rules if rule.user == user and kind in (wanted or rule.kinds)]


def check_kinds(kinds: object, field: str = "kinds") -> list[NoticeKind]:
    """Known kinds, each once, in our order."""
    if not isinstance(kinds, (list, tuple)) or not kinds:
        raise Invalid(field, "is not a list of kinds", f"choose from {', '.join(KINDS)}")
    wanted = [OTHER_WORDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    for kind in wanted:
        if kind not in KINDS:
            raise Invalid(field, f"{str(kind)[:40]!r} is not a kind of notice", f"choose from {', '.join(KINDS)}")
    return [kind for kind in KINDS if kind in wanted]
