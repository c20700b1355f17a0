"""Held jobs: waiting for other jobs, for their next attempt, or for their user."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from gpusquad.core.containment.ledger import Group
from gpusquad.core.containment.losses import losses_from
from gpusquad.core.ports import JobSubmitted
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.transitions import FINAL, JobState
from gpusquad.model.units import show_count, show_wait
from gpusquad.server.errors import Conflict
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.containment import (
    CONTAINED,
    Containment,
    Verdict,
    groups_of,
    is_contained,
    is_waiting,
)
from gpusquad.server.services.jobs.estimators import Estimators, awaits_estimate
from gpusquad.server.services.jobs.killed_runs import OUT_OF_MEMORY
from gpusquad.server.services.jobs.memory_retries import memory_choices
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

    def __init__(self, context: SchedulerContext, outcomes: Outcomes, containment: Containment) -> None:
        self._context = context
        self._containment = containment
        self._outcomes = outcomes
        self.estimators: Estimators | None = None
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
            if row is None or row.state != JobState.HELD or row.after or _is_stopped(row):
                del self._due[job_id]
            elif at_us > unit.now_us:
                wake_us = min(wake_us, at_us)
            elif awaits_estimate(row) and self.estimators is not None:
                del self._due[job_id]  # until ``resolved``
                self.estimators.start(unit, row)
            else:
                del self._due[job_id]
                self._release(unit, row)
        return wake_us

    def resolved(self, row: JobRow) -> None:
        """Its estimator has ended."""
        self._due[row.id] = row.release_us or 0

    def _release(self, unit: UnitOfWork, row: JobRow) -> None:
        row = unit.transition(row.id, JobState.PENDING, "pending", release_us=None)
        self._context.driver.apply(unit.now_us, JobSubmitted(self._context.job(row.id), forecast_of(row), past_of(row)))

    def hold(self, unit: UnitOfWork, row: JobRow, by: str) -> None:
        """Take it out of the queue until it is released."""
        if is_contained(row) or _is_impossible(row):
            reason = (row.stop or {}).get("cause", row.cause)
            raise Conflict(f"job {row.id} is held already: {reason}", cure="it stays held until that has changed")
        self._hold(unit, row, f"held by {by}", {"how": HOLD, "by": by}, by)

    def contain_group(self, unit: UnitOfWork, group: Group, verdict: Verdict) -> None:
        """Hold the jobs of a suspected group that do not run."""
        stop = {"how": CONTAINED, "cause": verdict.reason, "cards": list(verdict.cards)}
        for row in [row for row in unit.rows.values() if is_waiting(row) and group in groups_of(row)]:
            self._hold(unit, row, verdict.reason, stop)

    def exonerate(self, unit: UnitOfWork, card: str) -> None:
        """The card has failed its self-test: jobs that were held for its faults continue."""
        for row in [row for row in unit.rows.values() if row.state == JobState.HELD and is_contained(row)]:
            if self._containment.is_void((row.stop or {}).get("cards", ()), card):
                self._free(unit, row, f"card {card} was to blame: it failed its self-test", "")

    def _hold(self, unit: UnitOfWork, row: JobRow, cause: str, stop: dict[str, Any], by: str = "") -> None:
        if row.state == JobState.PENDING:
            if row.id in self._context.state.queue:  # otherwise the core has just refused it, which stands
                self._context.state.withdraw(row.id)
            self._context.driver.forget(row.id)
            unit.transition(row.id, JobState.HELD, "held", cause, actor=by, stop=stop)
        else:
            unit.change(row.id, stop=stop)
            unit.record(row.id, "held", cause, actor=by)

    def release(self, unit: UnitOfWork, row: JobRow, by: str) -> None:
        """End what keeps it out of the queue: a hold, or the wait for its next attempt."""
        waits = row.release_us is not None and row.release_us > unit.now_us
        if _is_impossible(row) or not (waits or is_contained(row) or _is_held_by_user(row)):
            raise Conflict(f"job {row.id} {_unreleasable(row)}", cure="it is queued by itself then, or cancel it")
        if is_contained(row):
            self._containment.released(row, unit.now_us)
        cause = f"released by {by}"
        if waits:
            cause += ", without waiting for its next attempt any longer"
            self._context.count_place_from(unit, row.id, unit.now_us, at_most=True)
        self._free(unit, unit.change(row.id, release_us=None), cause, by)

    def _free(self, unit: UnitOfWork, row: JobRow, cause: str, by: str) -> None:
        columns: dict[str, Any] = {"stop": None}
        if is_contained(row):
            columns["losses"] = None
        if is_contained(row) or _is_held_by_user(row):
            self._context.count_place_from(unit, row.id, unit.now_us)
        unit.change(row.id, **columns)
        unit.record(row.id, "released", cause, actor=by)
        self._due[row.id] = row.release_us or 0


def reasons_held(row: JobRow, now_us: int, max_losses: int, is_estimating: bool) -> Sequence[str]:
    """Why a held job is not in the queue. ``is_estimating``: its estimator runs."""
    reasons = [f"waits for the {d['on']} of {d['job']}" for d in row.after or ()]
    if _is_held_by_user(row):
        reasons.append(f"held by {(row.stop or {}).get('by', 'a user')}")
    if is_contained(row):
        reasons.append((row.stop or {}).get("cause", row.cause))
    if _is_impossible(row):
        reasons.append(row.cause)
    if row.release_us is not None and not _is_stopped(row):
        reasons.append(_next_attempt(row, now_us, max_losses))
    if awaits_estimate(row) and not row.after:
        state = (
            "its estimator (expect.by) runs" if is_estimating else "waits for its turn to run its estimator (expect.by)"
        )
        reasons.append(f"{state}; the job is queued when it has ended")
    return reasons


def is_held_by_service(row: JobRow) -> bool:
    """Whether the service keeps it out of the queue: not its user's hold, and not its dependencies."""
    if row.state != JobState.HELD or _is_held_by_user(row):
        return False
    return not row.after or _is_stopped(row)


def _next_attempt(row: JobRow, now_us: int, max_losses: int) -> str:
    left_us = (row.release_us or 0) - now_us
    when = f"next attempt in {show_wait(left_us)}" if left_us > 0 else "next attempt now"
    if not row.losses:
        return f"waits for its next attempt: {when}{_more_memory(row)}"
    limit = f"; held after {max_losses}" if max_losses else ""
    lost = f"lost {show_count(len(row.losses), 'time')}, the last time because: {losses_from(row.losses)[-1].cause}"
    return f"{lost}; {when}{limit}"


def _is_stopped(row: JobRow) -> bool:
    """Time alone does not release it."""
    return _is_held_by_user(row) or is_contained(row) or _is_impossible(row)


def _more_memory(row: JobRow) -> str:
    chosen = [one for one in memory_choices(row) if one["source"] == OUT_OF_MEMORY]
    return "".join(f", which requests {one['value']} of memory: {one['why']}" for one in chosen)


def _is_held_by_user(row: JobRow) -> bool:
    return (row.stop or {}).get("how") == HOLD


def _is_impossible(row: JobRow) -> bool:
    return (row.stop or {}).get("how") == IMPOSSIBLE


def _unreleasable(row: JobRow) -> str:
    if _is_impossible(row):
        return f"cannot run on the cluster: {row.cause}"
    waits = [f"the {one['on']} of {one['job']}" for one in row.after or ()] or ["its estimator (expect.by)"]
    return f"is held by nobody: it waits for {', '.join(waits)}"


def _describe(state: JobState) -> str:
    return {"succeeded": "succeeded", "failed": "failed", "cancelled": "was cancelled",
            "timed_out": "exceeded its time limit"}.get(str(state), str(state))  # fmt: skip
