"""Until when jobs behind a reservation may use what it needs (``commitments`` and ``outage`` say why)."""

from __future__ import annotations

from gpusquad.core.planning.commitments import LATE_RATIO
from gpusquad.core.planning.outage import next_opening_us, open_in_outage_us
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import Reservation


def open_until_us(state: SchedulerState, reservation: Reservation) -> int:
    """Instant by which jobs behind must have left what the reservation needs."""
    if reservation.is_pinned:
        return 0
    if reservation.job.id in state.startless_us:
        return open_in_outage_us(state, reservation)
    if state.policies.plan.binds != "always":
        return reservation.start_us
    promised_us = state.committed_us.get(reservation.job.id, NEVER_US)
    if state.now_us < promised_us:
        return min(reservation.start_us, promised_us)
    return min(reservation.start_us, state.now_us + (state.now_us - promised_us) // LATE_RATIO)


def update_commitments(state: SchedulerState, before_us: int) -> None:
    """Bring the reservations up to date with the time. ``before_us``: the previous cycle. A job that may have to be
    pinned now is considered like one after a change of capacity."""
    now_us, reservations = state.now_us, state.timeline.reservations
    for reservation in reservations.values():
        reservation.open_until_us = open_until_us(state, reservation)
    if not reservations:
        return
    passed = any(before_us <= state.committed_us.get(job_id, NEVER_US) < now_us for job_id in reservations)
    if passed or state.runs.any_overstays_since(before_us, now_us) or next_opening_us(state, before_us) <= now_us:
        state.capacity_changed()
