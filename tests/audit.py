"""Consistency checks of a scheduler state, computed again from the placements of the running gangs."""

from __future__ import annotations

from collections import Counter

import numpy as np

from gpusquad.core.capacity.capacity import MAX_SHARERS
from gpusquad.core.capacity.space import Space
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Placement
from gpusquad.model.units import WHOLE_MILLI


def audit(state: SchedulerState, now_us: int, *, reservations: bool = True) -> None:
    """Check after a cycle that nothing is over-allocated, every gang is complete and every index is correct. Pass
    ``reservations=False`` if stopping gangs take time: reservations then cannot be compared with predicted ends."""
    for run in state.runs.by_id.values():
        check_gang(state.space, run.job, run.placement)
        assert run.job.id not in state.queue, f"{run.job.id} is running and pending"
    check_capacity(state)
    check_space(state)
    if reservations:
        check_reservations(state, now_us)


def check_gang(space: Space, job: Job, placement: Placement) -> None:
    """Every task is placed once, on one node, on as many distinct and suitable cards as it requests."""
    fixed = space.fixed
    assert sorted(part.request_index for part in placement.parts) == list(range(len(job.groups)))
    taken: Counter[int] = Counter()
    for part in placement.parts:
        request = job.groups[part.request_index][0]
        low, high = job.bounds[part.request_index]
        assert low <= len(part.nodes) <= high, f"{job.id}: {len(part.nodes)} tasks, not {low} to {high}"
        assert part.cards.shape == (len(part.nodes), request.cards)
        for node, cards in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
            assert len(set(cards)) == len(cards)
            for card in cards:
                check_card(fixed, request, node, card)
                taken[card] += WHOLE_MILLI if request.share is None else request.share.sm_milli
    assert all(milli <= WHOLE_MILLI for milli in taken.values()), f"{job.id} has a card twice"


def check_card(fixed, request: Request, node: int, card: int) -> None:
    card_spec = fixed.cluster.nodes[node].cards[card - int(fixed.node_first[node])]
    assert fixed.card_ids[card] == card_spec.id
    assert not request.gpu_models or card_spec.model in request.gpu_models
    assert request.card is None or card_spec.id == request.card
    assert card_spec.memory_bytes >= request.min_card_memory_bytes


def check_capacity(state: SchedulerState) -> None:
    """No card and no node is over-allocated."""
    cluster = state.space.fixed.cluster
    cards = [card for node in cluster.nodes for card in node.cards]
    whole, memory, sm, clients = Counter(), Counter(), Counter(), Counter()
    cpu, node_memory = Counter(), Counter()
    for run in state.runs.by_id.values():
        for part in run.placement.parts:
            request = run.job.groups[part.request_index][0]
            for node, task_cards in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
                cpu[node] += request.cpu_milli
                node_memory[node] += request.memory_bytes
                for card in task_cards:
                    if request.share is None:
                        whole[card] += 1
                    else:
                        clients[card] += 1
                        memory[card] += request.share.memory_bytes
                        sm[card] += request.share.sm_milli
    for card, card_spec in enumerate(cards):
        assert whole[card] <= 1, f"{card_spec.id} is held whole by {whole[card]}"
        assert not (whole[card] and clients[card]), f"{card_spec.id} is held whole and shared"
        assert memory[card] <= card_spec.memory_bytes, (
            f"{card_spec.id} gives {memory[card]} of {card_spec.memory_bytes} bytes"
        )
        assert sm[card] <= WHOLE_MILLI, f"{card_spec.id} gives {sm[card]} thousandths"
        assert clients[card] <= MAX_SHARERS
    for n, node in enumerate(cluster.nodes):
        assert cpu[n] <= node.cpu_milli, f"{node.id} gives {cpu[n]} of {node.cpu_milli} CPU"
        assert node_memory[n] <= node.memory_bytes, f"{node.id} gives {node_memory[n]} of {node.memory_bytes} bytes"


def check_space(state: SchedulerState) -> None:
    """Compare free capacity and every cached room with a space rebuilt from the runs."""
    space = state.space
    rebuilt_space = rebuild_space(state)
    same_space(space, rebuilt_space)
    for request in list(space._rooms):
        assert space.room(request).tolist() == rebuilt_space.room(request).tolist(), f"stale room for {request}"
        assert space.total_room(request) == rebuilt_space.total_room(request)
    assert sorted((run.end_us, run.sequence, run.job.id) for run in state.runs.by_id.values()) == state.runs.ends


def rebuild_space(state: SchedulerState) -> Space:
    """Free capacity, computed from the running gangs."""
    rebuilt_space = Space(state.space.fixed)
    for card in np.flatnonzero(~state.space.card_ok).tolist():
        rebuilt_space.set_card_ok(card, False)
    for node in np.flatnonzero(~state.space.node_up).tolist():
        rebuilt_space.set_node_up(node, False)
    for run in state.runs.by_id.values():
        rebuilt_space.take(run.job, run.placement)
    return rebuilt_space


def same_space(first: Space, second: Space) -> None:
    for name in ("card_ok", "node_up", "card_idle", "node_idle", "card_memory_free", "card_sm_free", "card_slots_free",
                 "node_cpu_free", "node_memory_free", "idle_total"):  # fmt: skip
        assert np.array_equal(getattr(first, name), getattr(second, name)), name
    assert np.allclose(first.card_load, second.card_load)
    client_counts = [{c: Counter(j.id for j in jobs) for c, jobs in space.sharers.items()} for space in (first, second)]
    assert client_counts[0] == client_counts[1]


def check_reservations(state: SchedulerState, now_us: int) -> None:
    """Only pending jobs have reservations, and reservations never overlap on a card."""
    reservations = list(state.timeline.reservations.values())
    for reservation in reservations:
        assert reservation.job.id in state.queue, f"{reservation.job.id} is not pending but has a reservation"
        if reservation.placement is not None:
            check_gang(state.space, reservation.job, reservation.placement)
    for at_us in {reservation.start_us for reservation in reservations if reservation.start_us > now_us}:
        check_reservations_at(state, at_us)


def check_reservations_at(state: SchedulerState, at_us: int) -> None:
    """At that instant the running gangs and the reservations fit together."""
    free = Space(state.space.fixed)
    active = [
        reservation
        for reservation in state.timeline.reservations.values()
        if reservation.placement and reservation.start_us <= at_us < reservation.end_us
    ]
    for run in state.runs.by_id.values():
        if run.end_us > at_us:
            free.take(run.job, run.placement)
    for reservation in active:
        for part in reservation.placement.parts:
            request = reservation.job.groups[part.request_index][0]
            if request.share is None and request.gpus:
                cards = part.cards.ravel()
                assert free.card_idle[cards].all(), (
                    f"{reservation.job.id} has a reservation on a card that is taken at {at_us}"
                )
            free.take_part(reservation.job, part)
    for name in ("card_memory_free", "card_sm_free", "card_slots_free", "node_cpu_free", "node_memory_free"):
        assert (getattr(free, name) >= 0).all(), f"{name}: over-reserved at {at_us}"
