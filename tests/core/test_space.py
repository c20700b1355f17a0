"""Free capacity in arrays, compared with a plain count."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.capacity.capacity import MAX_SHARERS
from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import GIB, Card, Cluster, Node, grid
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.placement import Placement, ShapePlacement
from gpusquad.model.views import Refusal
from tests.audit import check_gang, same_space
from tests.strategies import clusters, examples, requests, traces


def placement_of(nodes: list[int], cards: list[list[int]]) -> Placement:
    return Placement((ShapePlacement(0, np.array(nodes), np.array(cards, dtype=np.int64).reshape(len(nodes), -1)),))


def job_of(request: Request, count: int = 1) -> Job:
    return Job("j", (Role("task", count, request),))


def counted_room(space: Space, cluster: Cluster, request: Request) -> list[int]:
    """Number of tasks for each node, placed one by one on a copy until no more fit."""
    rooms = []
    for n in range(len(cluster.nodes)):
        trial, job, count = space.copy(), job_of(request), 0
        while count < 200 and (cards := cards_for_one_task(trial, n, request)) is not None:
            trial.take(job, placement_of([n], [cards]))
            count += 1
        rooms.append(count)
    return rooms


def cards_for_one_task(space: Space, node: int, request: Request) -> list[int] | None:
    """Cards for one more task, found from the free amounts alone."""
    fixed = space.fixed
    if not space.node_up[node]:
        return None
    if space.node_cpu_free[node] < request.cpu_milli or space.node_memory_free[node] < request.memory_bytes:
        return None
    suitable = []
    for i, card in enumerate(fixed.cluster.nodes[node].cards):
        card_index = int(fixed.node_first[node]) + i
        is_match = (not request.gpu_models or card.model in request.gpu_models) and request.card in (None, card.id)
        if not is_match or not space.card_ok[card_index] or card.memory_bytes < request.min_card_memory_bytes:
            continue
        share = request.share
        if share is None:
            is_free = space.card_slots_free[card_index] == MAX_SHARERS
        else:
            memory = share.memory_bytes or card.memory_bytes * share.sm_milli // 1000
            if share == Share(sm_milli=1):
                memory = min(2**30, card.memory_bytes)
            is_free = (space.card_memory_free[card_index] >= memory and space.card_sm_free[card_index] >= share.sm_milli
                    and space.card_slots_free[card_index] > 0)  # fmt: skip
        if is_free:
            suitable.append(card_index)
    return suitable[: request.cards] if len(suitable) >= request.cards else None


@examples(60)
@given(cluster=clusters(), data=st.data())
def test_room_equals_the_tasks_that_can_be_placed_one_by_one(cluster: Cluster, data: st.DataObject):
    state = SchedulerState(cluster, make_policies())
    space, allocations = state.space, []
    requested = data.draw(st.lists(requests.filter(lambda r: r != Request()), min_size=1, max_size=3))
    for number in range(data.draw(st.integers(1, 6))):
        for request in requested:
            space.room(request)  # fills the cache that later changes must update
        change = data.draw(st.sampled_from(["place", "place", "give back", "card", "node"]))
        if change == "place":
            job = data.draw(traces(number, elastic=True)).job
            placement = state.try_place(space, job)
            if isinstance(placement, Placement):
                check_gang(space, job, placement)
                allocations.append((job, placement))
        elif change == "give back" and allocations:
            space.release(*allocations.pop(data.draw(st.integers(0, len(allocations) - 1))))
        elif change == "node":
            space.set_node_up(data.draw(st.integers(0, len(cluster.nodes) - 1)), data.draw(st.booleans()))
        elif change == "card" and cluster.gpus:
            space.set_card_ok(data.draw(st.integers(0, cluster.gpus - 1)), data.draw(st.booleans()))
    for request in requested:
        expected = counted_room(space, cluster, request)
        room = [min(count, 200) for count in space.room(request).tolist()]
        assert room == expected
        assert space.total_room(request) == int(space.room(request).sum())


@examples(60)
@given(cluster=clusters(), data=st.data())
def test_refused_or_released_placement_leaves_the_space_unchanged(cluster: Cluster, data: st.DataObject):
    state = SchedulerState(cluster, make_policies())
    state.try_place(state.space, data.draw(traces(0)).job)
    before = state.space.copy()
    for number in range(1, 4):
        job = data.draw(traces(number, roles=3)).job
        placement = state.try_place(state.space, job)
        if isinstance(placement, Placement):
            state.space.release(job, placement)
        else:
            assert isinstance(placement, Refusal)
        same_space(state.space, before)


@examples(40)
@given(cluster=clusters(), trace=traces(0, mixed=False))
def test_gang_of_one_shape_fits_exactly_when_it_can_be_placed(cluster: Cluster, trace):
    state = SchedulerState(cluster, make_policies())
    fits = state.space.fits(trace.job)
    assert isinstance(state.try_place(state.space, trace.job), Placement) == fits


def test_copied_space_is_independent():
    space = Space(ClusterArrays(grid("2x2")))
    other = space.copy()
    other.take(job_of(Request(gpus=2)), placement_of([0], [[0, 1]]))
    assert (space.idle_total, other.idle_total) == (4, 2)
    assert space.card_memory_free[0] == 80 * GIB


def test_busy_card_that_is_taken_again_is_counted_once():
    """A reservation may name a card that is still held, so a second take must not count twice."""
    space = Space(ClusterArrays(grid("1x2")))
    job = job_of(Request(gpus=1))
    space.take(job, placement_of([0], [[0]]))
    space.take(job, placement_of([0], [[0]]))
    assert (space.idle_total, space.node_idle.tolist()) == (1, [1])


def test_cards_of_a_drained_node_are_never_idle():
    space = Space(ClusterArrays(grid("1x2")))
    job, placement = job_of(Request(gpus=1)), placement_of([0], [[0]])
    space.take(job, placement)
    space.set_node_up(0, False)
    space.release(job, placement)
    space.take(job, placement)
    assert (space.idle_total, space.node_idle.tolist()) == (0, [0])
    space.set_node_up(0, True)
    assert (space.idle_total, space.node_idle.tolist()) == (1, [1])


def test_keep_least_gives_the_capacity_free_at_both_instants():
    space = Space(ClusterArrays(grid("1x3")))
    now, then = space.copy(), space.copy()
    now.take(job_of(Request(gpus=1)), placement_of([0], [[0]]))
    then.take(job_of(Request(share=Share(60 * GIB, 500))), placement_of([0], [[1]]))
    now.keep_least(then)
    assert now.card_idle.tolist() == [False, False, True]
    assert now.room(Request(gpus=1)).tolist() == [1]
    assert now.room(Request(share=Share(30 * GIB))).tolist() == [2]


def test_card_takes_no_more_clients_than_it_has_slots():
    space = Space(ClusterArrays(Cluster((Node("n", (Card("c"),)),))))
    assert space.room(Request(share=Share(1))).tolist() == [MAX_SHARERS]


def test_named_card_is_assigned_before_tasks_that_accept_any_card():
    roles = (Role("any", 1, Request(gpus=1)), Role("named", 1, Request(gpus=1, card="n0/0")))
    state = SchedulerState(grid("1x2"), make_policies())
    assert state.can_ever_run(Job("j", roles))


def test_gpu_model_is_assigned_before_tasks_that_accept_any_card():
    node = Node("n0", (Card("a0", "a"), Card("b0", "b")))
    roles = (Role("any", 1, Request(gpus=1)), Role("a", 1, Request(gpus=1, gpu_models=("a",))))
    state = SchedulerState(Cluster((node,)), make_policies())
    assert state.can_ever_run(Job("j", roles))
