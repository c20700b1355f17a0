"""Free capacity as arrays: always what a sum by hand gives, however it came about."""

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


def placed(nodes: list[int], cards: list[list[int]]) -> Placement:
    return Placement((ShapePlacement(0, np.array(nodes), np.array(cards, dtype=np.int64).reshape(len(nodes), -1)),))


def one(request: Request, count: int = 1) -> Job:
    return Job("j", (Role("task", count, request),))


def room_by_hand(space: Space, cluster: Cluster, request: Request) -> list[int]:
    """One task after another, on a copy, until no more go."""
    rooms = []
    for n in range(len(cluster.nodes)):
        trial, job, count = space.copy(), one(request), 0
        while count < 200 and (cards := cards_for(trial, n, request)) is not None:
            trial.take(job, placed([n], [cards]))
            count += 1
        rooms.append(count)
    return rooms


def cards_for(space: Space, node: int, request: Request) -> list[int] | None:
    """Cards on which one more task goes, looking at nothing but the free amounts."""
    fixed = space.fixed
    if not space.node_up[node]:
        return None
    if space.node_cpu_free[node] < request.cpu_milli or space.node_memory_free[node] < request.memory_bytes:
        return None
    good = []
    for i, card in enumerate(fixed.cluster.nodes[node].cards):
        at = int(fixed.node_first[node]) + i
        right = (not request.gpu_models or card.model in request.gpu_models) and request.card in (None, card.id)
        if not right or not space.card_ok[at] or card.memory_bytes < request.min_card_memory_bytes:
            continue
        share = request.share
        if share is None:
            free = space.card_slots_free[at] == MAX_SHARERS
        else:
            memory = share.memory_bytes or card.memory_bytes * share.sm_milli // 1000
            if share == Share(sm_milli=1):
                memory = min(2**30, card.memory_bytes)
            free = (space.card_memory_free[at] >= memory and space.card_sm_free[at] >= share.sm_milli
                    and space.card_slots_free[at] > 0)  # fmt: skip
        if free:
            good.append(at)
    return good[: request.cards] if len(good) >= request.cards else None


@examples(60)
@given(cluster=clusters(), data=st.data())
def test_room_is_what_can_be_put_one_by_one_after_any_changes(cluster: Cluster, data: st.DataObject):
    state = SchedulerState(cluster, make_policies())
    space, held = state.space, []
    asked = data.draw(st.lists(requests.filter(lambda r: r != Request()), min_size=1, max_size=3))
    for number in range(data.draw(st.integers(1, 6))):
        for request in asked:
            space.room(request)  # so that there is something to bring up to date
        change = data.draw(st.sampled_from(["place", "place", "give back", "card", "node"]))
        if change == "place":
            job = data.draw(traces(number, elastic=True)).job
            placement = state.try_place(space, job)
            if isinstance(placement, Placement):
                check_gang(space, job, placement)
                held.append((job, placement))
        elif change == "give back" and held:
            space.release(*held.pop(data.draw(st.integers(0, len(held) - 1))))
        elif change == "node":
            space.set_node_up(data.draw(st.integers(0, len(cluster.nodes) - 1)), data.draw(st.booleans()))
        elif change == "card" and cluster.gpus:
            space.set_card_ok(data.draw(st.integers(0, cluster.gpus - 1)), data.draw(st.booleans()))
    for request in asked:
        by_hand = room_by_hand(space, cluster, request)
        room = [min(count, 200) for count in space.room(request).tolist()]
        assert room == by_hand
        assert space.total_room(request) == int(space.room(request).sum())


@examples(60)
@given(cluster=clusters(), data=st.data())
def test_what_is_refused_or_given_back_leaves_no_trace(cluster: Cluster, data: st.DataObject):
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
def test_a_gang_of_one_shape_fits_exactly_when_it_can_be_placed(cluster: Cluster, trace):
    state = SchedulerState(cluster, make_policies())
    fits = state.space.fits(trace.job)
    assert isinstance(state.try_place(state.space, trace.job), Placement) == fits


def test_a_copy_is_apart():
    space = Space(ClusterArrays(grid("2x2")))
    other = space.copy()
    other.take(one(Request(gpus=2)), placed([0], [[0, 1]]))
    assert (space.idle_total, other.idle_total) == (4, 2)
    assert space.card_memory_free[0] == 80 * GIB


def test_cards_that_are_busy_are_taken_once():
    """A promise may name a card that is still held: taking it again must not count twice."""
    space = Space(ClusterArrays(grid("1x2")))
    job = one(Request(gpus=1))
    space.take(job, placed([0], [[0]]))
    space.take(job, placed([0], [[0]]))
    assert (space.idle_total, space.node_idle.tolist()) == (1, [1])


def test_cards_of_a_drained_node_are_taken_and_given_back_without_being_idle():
    space = Space(ClusterArrays(grid("1x2")))
    job, where = one(Request(gpus=1)), placed([0], [[0]])
    space.take(job, where)
    space.set_node_up(0, False)
    space.release(job, where)
    space.take(job, where)
    assert (space.idle_total, space.node_idle.tolist()) == (0, [0])
    space.set_node_up(0, True)
    assert (space.idle_total, space.node_idle.tolist()) == (1, [1])


def test_the_least_of_two_instants_is_free_at_both():
    space = Space(ClusterArrays(grid("1x3")))
    now, then = space.copy(), space.copy()
    now.take(one(Request(gpus=1)), placed([0], [[0]]))
    then.take(one(Request(share=Share(60 * GIB, 500))), placed([0], [[1]]))
    now.keep_least(then)
    assert now.card_idle.tolist() == [False, False, True]
    assert now.room(Request(gpus=1)).tolist() == [1]
    assert now.room(Request(share=Share(30 * GIB))).tolist() == [2]


def test_a_card_takes_no_more_sharers_than_it_has_slots():
    space = Space(ClusterArrays(Cluster((Node("n", (Card("c"),)),))))
    assert space.room(Request(share=Share(1))).tolist() == [MAX_SHARERS]


def test_tasks_that_name_a_card_get_it_before_those_that_take_any():
    roles = (Role("any", 1, Request(gpus=1)), Role("named", 1, Request(gpus=1, card="n0/0")))
    state = SchedulerState(grid("1x2"), make_policies())
    assert state.can_ever_run(Job("j", roles))


def test_tasks_that_need_a_model_get_it_before_those_that_take_any():
    node = Node("n0", (Card("a0", "a"), Card("b0", "b")))
    roles = (Role("any", 1, Request(gpus=1)), Role("a", 1, Request(gpus=1, gpu_models=("a",))))
    state = SchedulerState(Cluster((node,)), make_policies())
    assert state.can_ever_run(Job("j", roles))
