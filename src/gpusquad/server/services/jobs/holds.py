"""Held jobs: waiting for other jobs, for their next attempt, or for their user."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from gpusquad.core.ports import JobSubmitted
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.transitions import FINAL, JobState
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.outcomes import Outcomes
from gpusquad.server.services.runtime.records import forecast_of, past_of
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store.jobs import JobRow

HOLD = "hold"
IMPOSSIBLE = "impossible"
"""Held because the current cluster can never run it."""
MAX_REMEMBERED = 20_000
"""Recent ends, kept for jobs that are accepted while their dependencies end."""
_MET = {
    "success": frozenset({JobState.SUCCEEDED}),
    "failure": frozenset({JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED}),
    "any": FINAL,
}


class Holds:
    """Tracks held jobs. Called inside a pass only."""

    def __init__(self, context: SchedulerContext, outcomes: Outcomes) -> None:
        self._context = context
        self._outcomes = outcomes
        self._waiting_on: defaultdict[str, set[str]] = defaultdict(set)
        self._due: dict[str, int] = {}
        """Held job to the time when it may be released."""
        self._just_ended: dict[str, str] = {}
        self._ends: deque[JobRow] = deque()
        """Ended jobs whose dependants were not handled yet."""

    def watch(self, row: JobRow) -> None:
        """Track a newly held job."""
        for dependency in row.after or ():
            self._waiting_on[dependency["job"]].add(row.id)
        self._due[row.id] = row.release_us or 0

    def just_ended(self, job_id: str) -> bool:
        return job_id in self._just_ended

    def settle(self, unit: UnitOfWork, states: dict[str, str], job_id: str) -> None:
        """Apply dependencies that ended before the job was accepted. Some ended after their states were read."""
        for dependency_id, state in states.items():
            state = self._just_ended.get(dependency_id, state)
            if JobState(state) in FINAL and job_id in unit.rows:
                self._waiting_on[dependency_id].discard(job_id)
                self._dependency_over(unit, unit.rows[job_id], dependency_id, JobState(state))

    def job_ended(self, unit: UnitOfWork, row: JobRow) -> None:
        self._due.pop(row.id, None)
        self._just_ended[row.id] = row.state
        if len(self._just_ended) > MAX_REMEMBERED:
            del self._just_ended[next(iter(self._just_ended))]
        self._ends.append(row)
        if len(self._ends) > 1:
            return  # the outer call handles it, so that a long chain needs no recursion
        try:
            while self._ends:
                self._settle_dependants(unit, self._ends[0])
                self._ends.popleft()
        finally:
            self._ends.clear()

    def _settle_dependants(self, unit: UnitOfWork, row: JobRow) -> None:
        for waiter in sorted(self._waiting_on.pop(row.id, ())):
            if waiter in unit.rows:
                self._dependency_over(unit, unit.rows[waiter], row.id, JobState(row.state))

    def _dependency_over(self, unit: UnitOfWork, row: JobRow, dependency_id: str, state: JobState) -> None:
        left: list[dict[str, Any]] = []
        for dependency in row.after or ():
            if dependency["job"] != dependency_id:
                left.append(dependency)
            elif state not in _MET[dependency["on"]]:
                cause = f"waited for the {dependency['on']} of {dependency_id}, which {_describe(state)}"
                self._outcomes.finish(unit, row.id, JobState.CANCELLED, cause)
                return
        unit.change(row.id, after=left)
        if not left:
            self._context.count_place_from(unit, row.id, unit.now_us)
        self._due[row.id] = row.release_us or 0

    def release_due(self, unit: UnitOfWork) -> int:
        """Release held jobs that are due. Returns when the next one is."""
        wake_us = NEVER_US
        for job_id, at_us in list(self._due.items()):
            row = unit.rows.get(job_id)
            if row is None or row.state != JobState.HELD or row.after or _is_held_by_user(row) or _is_impossible(row):
                del self._due[job_id]
            elif at_us > unit.now_us:
                wake_us = min(wake_us, at_us)
            else:
                del self._due[job_id]
                self._release(unit, row)
        return wake_us

    def _release(self, unit: UnitOfWork, row: JobRow) -> None:
        row = unit.transition(row.id, JobState.PENDING, "pending", release_us=None)
        self._context.driver.apply(unit.now_us, JobSubmitted(self._context.job(row.id), forecast_of(row), past_of(row)))

    def hold(self, unit: UnitOfWork, row: JobRow, by: str) -> None:
        """Take it out of the queue until it is released."""
        if row.state == JobState.PENDING:
            if row.id in self._context.state.queue:  # otherwise the core has just refused it, which stands
                self._context.state.withdraw(row.id)
            self._context.driver.forget(row.id)
            unit.transition(row.id, JobState.HELD, "held", f"held by {by}", actor=by, stop={"how": HOLD, "by": by})
        else:
            unit.change(row.id, stop={"how": HOLD, "by": by})
            unit.record(row.id, "held", f"held by {by}", actor=by)

    def release(self, unit: UnitOfWork, row: JobRow, by: str) -> None:
        if _is_held_by_user(row):
            self._context.count_place_from(unit, row.id, unit.now_us)
        unit.change(row.id, stop=None)
        unit.record(row.id, "released", f"released by {by}", actor=by)
        self._due[row.id] = row.release_us or 0


def reasons_held(row: JobRow) -> Sequence[str]:
    """Why a held job is not in the queue."""
    reasons = [f"waits for the {d['on']} of {d['job']}" for d in row.after or ()]
    if _is_held_by_user(row):
        reasons.append(f"held by {(row.stop or {}).get('by', 'a user')}")
    if _is_impossible(row):
        reasons.append(row.cause)
    if row.release_us is not None:
        reasons.append("waits for its next attempt")
    return reasons


def _is_held_by_user(row: JobRow) -> bool:
    return (row.stop or {}).get("how") == HOLD


def _is_impossible(row: JobRow) -> bool:
    return (row.stop or {}).get("how") == IMPOSSIBLE


def _describe(state: JobState) -> str:
    return {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled",
            "timed_out": "exceeded its time limit"}.get(str(state), str(state))  # fmt: skip
