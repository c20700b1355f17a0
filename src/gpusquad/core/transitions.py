"""The table of job states and their allowed transitions."""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    """State of a job."""

    HELD = "held"
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    PREEMPTING = "preempting"
    STOPPING = "stopping"
    LOST = "lost"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


S = JobState
FINAL = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED, S.TIMED_OUT})
NEXT: dict[JobState | None, frozenset[JobState]] = {
    None: frozenset({S.HELD, S.PENDING, S.FAILED}),
    S.HELD: frozenset({S.PENDING, S.CANCELLED, S.FAILED}),
    S.PENDING: frozenset({S.STARTING, S.HELD, S.CANCELLED, S.FAILED}),
    S.STARTING: frozenset({S.RUNNING, S.PENDING, S.PREEMPTING, S.STOPPING, S.FAILED, S.LOST, S.SUCCEEDED, S.TIMED_OUT,
                           S.HELD}),
    S.RUNNING: frozenset({S.SUCCEEDED, S.FAILED, S.TIMED_OUT, S.PREEMPTING, S.STOPPING, S.LOST, S.HELD}),
    S.PREEMPTING: frozenset({S.PENDING, S.SUCCEEDED, S.FAILED, S.LOST, S.STOPPING, S.HELD}),
    S.STOPPING: frozenset({S.CANCELLED, S.TIMED_OUT, S.SUCCEEDED, S.FAILED, S.HELD}),
    S.LOST: frozenset({S.RUNNING, S.PENDING, S.FAILED, S.HELD, S.STOPPING}),
} | {state: frozenset() for state in FINAL}  # fmt: skip


class WrongTransition(RuntimeError):
    """An event that the state of the job does not allow: a bug in an engine or in the core."""


def advance(job_id: str, now: JobState | None, then: JobState) -> JobState:
    """The next state, if the table allows it."""
    if then not in NEXT[now]:
        raise WrongTransition(f"job {job_id}: {now or 'nothing'} -> {then} is not allowed")
    return then
