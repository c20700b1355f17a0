"""Gathering: a job whose planned start cannot be relied on reserves the cards that are idle and those freed next.

Its reservation by predicted ends alone could be moved on and on: a run that has outlived its time is always predicted
to end soon, and meanwhile jobs behind would start on all other cards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpusquad.core.capacity.space import Space
from gpusquad.core.planning.commitments import holders_of, leaves_us, space_beside
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, Run, after_us
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import Reservation
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement


def gather(state: SchedulerState, waiting: PendingJob, ahead: Sequence[Reservation]) -> Reservation | None:
    """A reservation of the cards that are idle and of those that are freed next. None: it does not fit even when all
    runs have ended."""
    job, idle = waiting.job, space_beside(state, waiting, ahead)
    runs = sorted(state.runs.by_id.values(), key=lambda run: (leaves_us(state, run), run.sequence))
    count = _least_fitting(idle, job, runs)
    if count is None:
        return None
    space = _released(idle, runs[:count])
    if count and not job.has_shares:
        _hide_surplus(space, job, runs[count - 1])
    placement = state.try_place(space, job)
    if not isinstance(placement, Placement):
        return None
    holders = holders_of(runs, job, placement)
    start_us = min(max(state.now_us + 1, *(state.runs[job_id].end_us for job_id in holders), 0), NEVER_US)
    return Reservation(job, start_us, after_us(start_us, waiting.stay_us), placement, keeps_cards=True)


def _least_fitting(idle: Space, job: Job, runs: Sequence[Run]) -> int | None:
    """Least number of runs, in this order, that must end before the gang fits."""
    low, high, space = 0, 0, idle.copy()
    while not space.fits(job):
        if high == len(runs):
            return None
        low, high = high + 1, min(len(runs), max(1, 2 * high))
        for run in runs[low - 1 : high]:
            space.release(run.job, run.placement)
    while low < high:
        middle = (low + high) // 2
        if _released(idle, runs[:middle]).fits(job):
            high = middle
        else:
            low = middle + 1
    return high


def _released(idle: Space, runs: Sequence[Run]) -> Space:
    space = idle.copy()
    for run in runs:
        space.release(run.job, run.placement)
    return space


def _hide_surplus(space: Space, job: Job, last: Run) -> None:
    """Leave only as many cards of the last run as the gang needs, so that it is placed on those freed before."""
    low, high = 0, sum(part.cards.size for part in last.placement.parts)
    cards = list(last.placement.all_cards())
    while low < high:
        middle = (low + high) // 2
        if _without_cards(space, cards[middle:]).fits(job):
            high = middle
        else:
            low = middle + 1
    for card in cards[high:]:
        space.set_card_ok(card, False)


def _without_cards(space: Space, cards: Iterable[int]) -> Space:
    less = space.copy()
    for card in cards:
        less.set_card_ok(card, False)
    return less
