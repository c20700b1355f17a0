"""How a new job on a shared card delays ends that reservations rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusquad.core.capacity.space import Space
from gpusquad.core.state.runs import NEVER_US, Run
from gpusquad.core.state.timeline import Reservation
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement

if TYPE_CHECKING:
    from gpusquad.core.state.state import SchedulerState


def delayed_reservation(state: SchedulerState, job: Job, placement: Placement, until_us: int) -> Reservation | None:
    """A reservation that would be delayed because the gang, already placed in the space, slows others or is slowed."""
    reservations = [p for p in state.timeline.reservations.values() if p.job.id != job.id]
    rate = state.rate
    if rate is None or not reservations or not job.has_shares:
        return None
    own_end_us = _stretched(state.now_us, until_us, 1.0, _slowest(state, rate, job, placement, without=None))
    found = reservation_between(reservations, until_us, own_end_us, job, placement)
    for neighbour in _neighbours(state, job, placement):
        if found is not None:
            break
        before = _slowest(state, rate, neighbour.job, neighbour.placement, without=job)
        after = _slowest(state, rate, neighbour.job, neighbour.placement, without=None)
        slowed_us = _stretched(state.now_us, neighbour.end_us, before, after)
        found = reservation_between(reservations, neighbour.end_us, slowed_us, neighbour.job, neighbour.placement)
    return found


def crowded_out(state: SchedulerState, job: Job, placement: Placement) -> bool:
    """Whether the gang, already placed in the space, and a neighbour have rate 0 on one card."""
    rate = state.rate
    if rate is None or not job.has_shares:
        return False
    those = [(job, placement)] + [(run.job, run.placement) for run in _neighbours(state, job, placement)]
    return any(_slowest(state, rate, one, where, without=None) <= 0 for one, where in those)


def gpu_of(space: Space, card: int) -> str:
    """The card's model."""
    return space.fixed.models[space.fixed.card_model[card]]


def _stretched(now_us: int, end_us: int, before: float, after: float) -> int:
    """The end after the rate changed. NEVER_US if the new rate is 0."""
    if after <= 0:
        return NEVER_US
    return min(now_us + round(max(0, end_us - now_us) * before / after), NEVER_US)


def reservation_between(
    reservations: list[Reservation], end_us: int, slowed_us: int, job: Job, placement: Placement
) -> Reservation | None:
    """A reservation that starts between the old end and the new one and relies on what this gang holds."""
    cards = set(placement.all_cards())
    nodes = set(placement.all_nodes()) if job.cpu_milli or job.memory_bytes else set()
    for reservation in reservations:
        if end_us <= reservation.start_us < slowed_us and _counts_on(reservation, cards, nodes):
            return reservation
    return None


def _counts_on(reservation: Reservation, cards: set[int], nodes: set[int]) -> bool:
    """Whether it needs any of these cards, or CPU or memory of these nodes."""
    if reservation.placement is None:
        return True
    return not (
        cards.isdisjoint(reservation.placement.all_cards()) and nodes.isdisjoint(reservation.placement.all_nodes())
    )


def _neighbours(state: SchedulerState, job: Job, placement: Placement) -> list[Run]:
    ids = {other.id for card in placement.all_cards() for other in state.space.sharers.get(card, ())} - {job.id}
    return [state.runs[job_id] for job_id in sorted(ids)]


def _slowest(state: SchedulerState, rate: Rate, job: Job, placement: Placement, without: Job | None) -> float:
    """A gang runs at its slowest task's rate."""
    return min((_on_card(state, rate, job, card, without) for card in placement.all_cards()), default=1.0)


def _on_card(state: SchedulerState, rate: Rate, job: Job, card: int, without: Job | None) -> float:
    others = list(state.space.sharers.get(card, ()))
    for left_out in (job, without):
        if left_out is not None and left_out in others:
            others.remove(left_out)
    return rate(job, others, gpu_of(state.space, card)) if others else 1.0
