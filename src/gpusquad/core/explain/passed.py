"""Which jobs that became eligible later went ahead of a pending job by a right, and by which. Jobs that were
backfilled, or that the order policy puts first for another reason, are not listed: they have no right over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from gpusquad.core.planning.commitments import kept_place_then, rank_by_policy
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.limits import over_limit
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.priority import precedence

Right = Literal["priority", "guarantee", "lane", "wait limit", "fair share"]
MOST = 20


@dataclass(frozen=True, slots=True)
class Passed:
    """A job that went ahead of another one."""

    job: Job
    is_running: bool
    by: Right
    value: str
    """The priority, the tenant whose guarantee it is, the lane, why its tenant goes first, or empty."""


@dataclass(frozen=True, slots=True)
class _Later:
    job: Job
    sequence: int
    lane: Lane
    started_us: int | None = None
    """None: it is pending."""

    @property
    def is_running(self) -> bool:
        return self.started_us is not None


def passed_by(state: SchedulerState, job_id: str) -> list[Passed]:
    """Running jobs first, then those ahead in the queue; at most ``MOST``. Empty: the job is not pending."""
    if job_id not in state.queue:
        return []
    waiting, found = state.queue[job_id], []
    for later in _later(state, waiting):
        right = _right(state, waiting, later)
        if right is not None:
            found.append(Passed(later.job, later.is_running, *right))
        if len(found) == MOST:
            break
    return found


def _later(state: SchedulerState, waiting: PendingJob) -> Iterator[_Later]:
    """Jobs that became eligible later and have started, for which others are being preempted, or that are ahead."""
    mine = (waiting.job.eligible_us, waiting.sequence)
    for run in state.runs.by_id.values():
        if (run.job.eligible_us, run.sequence) > mine and run.started_us >= waiting.job.eligible_us:
            yield _Later(run.job, run.sequence, run.lane, run.started_us)
    ahead = [state.queue.at(position) for position in range(state.queue.position(waiting))]
    claiming = [state.queue[i] for i in state.claims if i in state.queue and state.queue[i] not in ahead]
    for other in (*claiming, *ahead):
        if (other.job.eligible_us, other.sequence) > mine:
            yield _Later(other.job, other.sequence, other.lane)


def _right(state: SchedulerState, waiting: PendingJob, later: _Later) -> tuple[Right, str] | None:
    if state.claims.get(later.job.id) == "reclaim":
        return "guarantee", later.job.tenant
    if _goes_first(state, waiting, later) or state.claims.get(later.job.id) == "priority":
        equal = replace(later, job=replace(later.job, priority=waiting.job.priority))
        if later.job.priority_level > waiting.job.priority_level and not _goes_first(state, waiting, equal):
            return "priority", later.job.priority
        if _is_due(state, later.job) and not _is_due(state, waiting.job):
            return "wait limit", ""
        reason = state.policies.order.passes_by
        return ("fair share", reason) if reason and later.job.tenant != waiting.job.tenant else None
    over = over_limit(state, waiting.job) if waiting.blocked else None
    if over is not None and over[0] == "lane" and later.lane.name != waiting.lane.name:
        return "lane", later.lane.name
    return None


def _goes_first(state: SchedulerState, waiting: PendingJob, later: _Later) -> bool:
    if later.started_us is not None and not kept_place_then(state, waiting, later.started_us):
        return rank_by_policy(state, later.job, later.sequence) < rank_by_policy(state, waiting.job, waiting.sequence)
    theirs = (precedence(later.job.priority), *state.key(later.job), later.sequence)
    return theirs < (precedence(waiting.job.priority), *state.key(waiting.job), waiting.sequence)


def _is_due(state: SchedulerState, job: Job) -> bool:
    """Whether the starvation guard promotes it."""
    order = state.policies.order
    return order.varies == "when_due" and order.due_us(job, state) <= state.due_until_us
