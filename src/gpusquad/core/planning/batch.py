"""Batches: jobs that start in one cycle are placed in the place policy's own order.

Who starts is decided in the order of the queue. Which of them gets which card should not depend on that order: a small
job placed first can take the gap that only the large one behind it fits. So the shares at the front of the queue are
placed together first, as many of them as fit that way.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.core.planning.session import CycleSession
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement

MAX_BATCH = 64
"""Maximum number of jobs placed together."""


def start_batch(session: CycleSession) -> None:
    """Start the longest front of the queue whose jobs all fit when they are placed in the place policy's order."""
    state = session.state
    batch = _front(state)
    if len(batch) < 2 or not _reorders(state, [waiting.job for waiting in batch]):
        return
    placements = _largest_front(state, batch)
    for waiting in batch[: len(placements)]:
        session.start_at(waiting.job, placements[waiting.job.id])


def _front(state: SchedulerState) -> list[PendingJob]:
    """Pending jobs with shares before the first other job, or the first whose start changes the allowed nodes of
    others. None where limits or reservations decide job by job."""
    if state.has_limits or state.timeline.reservations or state.timeline.windows or not state.new_jobs:
        return []
    front: list[PendingJob] = []
    for waiting in state.queue:
        if not waiting.job.has_shares or len(front) == MAX_BATCH or waiting.job.id in state.space.allowed.awaited:
            break
        front.append(waiting)
    return front


def _reorders(state: SchedulerState, jobs: list[Job]) -> bool:
    return [job.id for job in _ranked(state, jobs)] != [job.id for job in jobs]


def _ranked(state: SchedulerState, jobs: list[Job]) -> list[Job]:
    fixed = state.space.fixed
    return state.policies.place.rank(jobs, state.rate, fixed.models[0] if len(fixed.models) == 1 else "")


def _largest_front(state: SchedulerState, batch: Sequence[PendingJob]) -> dict[str, Placement]:
    """Placements of the longest front that fits as a whole. The length is found by bisection."""
    found = _placed_together(state, batch)
    if found is not None:
        return found
    found, low, high = {}, 1, len(batch) - 1
    while low <= high:
        middle = (low + high) // 2
        placements = _placed_together(state, batch[:middle])
        if placements is None:
            high = middle - 1
        else:
            found, low = placements, middle + 1
    return found


def _placed_together(state: SchedulerState, batch: Sequence[PendingJob]) -> dict[str, Placement] | None:
    """Placements of all of them, on a copy of the free capacity. None: one finds no place."""
    space = state.space.copy()
    placements: dict[str, Placement] = {}
    for job in _ranked(state, [waiting.job for waiting in batch]):
        answer = state.try_place(space, job)
        if not isinstance(answer, Placement):
            return None
        placements[job.id] = answer
    return placements
