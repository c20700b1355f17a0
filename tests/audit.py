"""The books kept a second time, by hand and slowly, from nothing but who runs where."""

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
    """To be run after every cycle: nothing over-allocated, every gang whole, every index true. Where gangs take their
    time to leave, promises to those they leave for cannot be held against predicted ends."""
    for run in state.runs.by_id.values():
        check_gang(state.space, run.job, run.placement)
        assert run.job.id not in state.queue, f"{run.job.id} runs and waits"
    check_capacity(state)
    check_space(state)
    if reservations:
        check_promises(state, now_us)


def check_gang(space: Space, job: Job, placement: Placement) -> None:
    """Every task once, on one node, on as many distinct cards as it asks for, of the right kind."""
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
    known = fixed.cluster.nodes[node].cards[card - int(fixed.node_first[node])]
    assert fixed.card_ids[card] == known.id
    assert not request.gpu_models or known.model in request.gpu_models
    assert request.card is None or known.id == request.card
    assert known.memory_bytes >= request.min_card_memory_bytes


def check_capacity(state: SchedulerState) -> None:
    """No card and no node gives more than it has."""
    cluster = state.space.fixed.cluster
    cards = [card for node in cluster.nodes for card in node.cards]
    whole, memory, sm, clients = Counter(), Counter(), Counter(), Counter()
    cpu, node_memory = Counter(), Counter()
    for run in state.runs.by_id.values():
        for part in run.placement.parts:
            request = run.job.groups[part.request_index][0]
            for node, own in zip(part.nodes.tolist(), part.cards.tolist(), strict=True):
                cpu[node] += request.cpu_milli
                node_memory[node] += request.memory_bytes
                for card in own:
                    if request.share is None:
                        whole[card] += 1
                    else:
                        clients[card] += 1
                        memory[card] += request.share.memory_bytes
                        sm[card] += request.share.sm_milli
    for card, known in enumerate(cards):
        assert whole[card] <= 1, f"{known.id} is held whole by {whole[card]}"
        assert not (whole[card] and clients[card]), f"{known.id} is held whole and shared"
        assert memory[card] <= known.memory_bytes, f"{known.id} gives {memory[card]} of {known.memory_bytes} bytes"
        assert sm[card] <= WHOLE_MILLI, f"{known.id} gives {sm[card]} thousandths"
        assert clients[card] <= MAX_SHARERS
    for n, node in enumerate(cluster.nodes):
        assert cpu[n] <= node.cpu_milli, f"{node.id} gives {cpu[n]} of {node.cpu_milli} CPU"
        assert node_memory[n] <= node.memory_bytes, f"{node.id} gives {node_memory[n]} of {node.memory_bytes} bytes"


def check_space(state: SchedulerState) -> None:
    """Free capacity and every cached room, against a space filled anew from the runs."""
    space = state.space
    anew = rebuilt(state)
    same_space(space, anew)
    for request in list(space._rooms):
        assert space.room(request).tolist() == anew.room(request).tolist(), f"stale room for {request}"
        assert space.total_room(request) == anew.total_room(request)
    assert sorted((run.end_us, run.sequence, run.job.id) for run in state.runs.by_id.values()) == state.runs.ends


def rebuilt(state: SchedulerState) -> Space:
    """What is free, worked out from scratch."""
    anew = Space(state.space.fixed)
    for card in np.flatnonzero(~state.space.card_ok).tolist():
        anew.set_card_ok(card, False)
    for node in np.flatnonzero(~state.space.node_up).tolist():
        anew.set_node_up(node, False)
    for run in state.runs.by_id.values():
        anew.take(run.job, run.placement)
    return anew


def same_space(one: Space, other: Space) -> None:
    for name in ("card_ok", "node_up", "card_idle", "node_idle", "card_memory_free", "card_sm_free", "card_slots_free",
                 "node_cpu_free", "node_memory_free", "idle_total"):  # fmt: skip
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert np.allclose(one.card_load, other.card_load)
    seats = [{c: Counter(j.id for j in jobs) for c, jobs in space.sharers.items()} for space in (one, other)]
    assert seats[0] == seats[1]


def check_promises(state: SchedulerState, now_us: int) -> None:
    """Only who waits holds a promise, and promises hold each card once at any instant."""
    reservations = list(state.timeline.reservations.values())
    for reservation in reservations:
        assert reservation.job.id in state.queue, f"{reservation.job.id} does not wait and holds a promise"
        if reservation.placement is not None:
            check_gang(state.space, reservation.job, reservation.placement)
    for at_us in {p.start_us for p in reservations if p.start_us > now_us}:
        check_promises_at(state, at_us)


def check_promises_at(state: SchedulerState, at_us: int) -> None:
    """At that instant the gangs that still run and those promised fit beside each other."""
    free = Space(state.space.fixed)
    due = [p for p in state.timeline.reservations.values() if p.placement and p.start_us <= at_us < p.end_us]
    for run in state.runs.by_id.values():
        if run.end_us > at_us:
            free.take(run.job, run.placement)
    for reservation in due:
        for part in reservation.placement.parts:
            request = reservation.job.groups[part.request_index][0]
            if request.share is None and request.gpus:
                cards = part.cards.ravel()
                assert free.card_idle[cards].all(), f"{reservation.job.id} is promised a card that is taken at {at_us}"
            free.take_part(reservation.job, part)
    for name in ("card_memory_free", "card_sm_free", "card_slots_free", "node_cpu_free", "node_memory_free"):
        assert (getattr(free, name) >= 0).all(), f"{name}: too much promised at {at_us}"
