"""Outages: a job with a promised start that does not fit on what is in service keeps what it needs of the rest.

Cards may be back at any time, and nobody knows when. If jobs behind it could use its other cards without limit
meanwhile, the job would wait for them afterwards: for the longest of them, and for every one that runs longer than
predicted. So until the promised start they must be gone by then, and later they may stay for as long as the job has
waited for the cards that are out of service: an outage then costs it at most twice its length and one overrun. While
one of them has outlived its time, no further one starts. After ``GIVEN_UP_US`` the rest serves everybody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.planning.commitments import guests, holders_of
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import FOREVER_US, NEVER_US
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import Reservation
from gpusquad.model.placement import Placement
from gpusquad.model.units import US_PER_S

GIVEN_UP_US = 8 * 3600 * US_PER_S
"""After this time the job no longer keeps what is in service: a repair takes days."""


def keep_in_service(state: SchedulerState, waiting: PendingJob, ahead: Sequence[Reservation]) -> Reservation | None:
    """A reservation without a start, of the cards that the job would have if all were in service. None: no start was
    promised to it, or the outage has taken too long."""
    job_id, binds = waiting.job.id, state.policies.plan.binds
    if job_id not in state.committed_us or binds == "never" or not state.can_ever_run(waiting.job):
        state.startless_us.pop(job_id, None)
        return None
    state.startless_us.setdefault(job_id, state.now_us)
    if state.now_us >= _late_since_us(state, job_id) + GIVEN_UP_US:
        return None
    placement = state.try_place(_all_in_service(state, ahead), waiting.job)
    if not isinstance(placement, Placement):
        return None
    reservation = Reservation(waiting.job, NEVER_US, FOREVER_US, placement, keeps_cards=True)
    return reservation if binds == "always" or _has_overstayed(state, reservation) else None


def open_in_outage_us(state: SchedulerState, reservation: Reservation) -> int:
    """Instant by which jobs behind must have left what is kept for the job."""
    if _has_overstayed(state, reservation):
        return 0
    job_id = reservation.job.id
    promised_us = state.committed_us.get(job_id, 0)
    return max(promised_us, 2 * state.now_us - _late_since_us(state, job_id))


def next_opening_us(state: SchedulerState, after_us: int) -> int:
    """When the next pending job may start on what is kept during an outage."""
    kept = [job_id for job_id in state.startless_us if job_id in state.timeline.reservations]
    times = [NEVER_US]
    for job_id in kept:
        since_us = _late_since_us(state, job_id)
        stays_us = np.minimum(state.queue.stay_us, GIVEN_UP_US)
        later = stays_us[stays_us > after_us - since_us]
        times += [since_us + int(later.min())] if later.size else []
    return min(times)


def _late_since_us(state: SchedulerState, job_id: str) -> int:
    """Since when the outage has kept it waiting."""
    return max(state.startless_us.get(job_id, state.now_us), state.committed_us.get(job_id, 0))


def _has_overstayed(state: SchedulerState, reservation: Reservation) -> bool:
    """Whether a guest that has outlived its time holds a part of what the job needs."""
    late = guests(state, state.queue[reservation.job.id], state.runs.overstayed(state.now_us))
    assert reservation.placement is not None
    return bool(holders_of(late, reservation.job, reservation.placement))


def _all_in_service(state: SchedulerState, ahead: Sequence[Reservation]) -> Space:
    """The capacity when all runs have ended and nothing is out of service, without what is reserved for jobs ahead."""
    space = Space(state.space.fixed)
    space.allowed = state.space.allowed
    for reservation in ahead:
        if reservation.placement is not None and reservation.end_us > NEVER_US:
            space.take(reservation.job, reservation.placement)
    return space
