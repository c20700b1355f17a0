"""Nodes of which more is known than their cards: what else they have, who may go there, what others hold on them; and
nodes that come and go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad import registry
from gpusquad.core.driver import Driver
from gpusquad.core.explain.explain import why
from gpusquad.core.explain.feasibility import refusal
from gpusquad.core.ports import (
    ClusterChanged,
    ForeignUsageChanged,
    GangEnded,
    JobCancelled,
    JobSubmitted,
    NodeSetsChanged,
)
from gpusquad.core.snapshot.dump import dump_snapshot, load_snapshot
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import Card, Cluster, ForeignUsage, Node
from gpusquad.model.decision import Start
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from tests.core.test_dump import make_policies

HOUR_US = 3600 * US_PER_S
PLACES = sorted(registry.names("place"))


def node(name: str, gpus: int = 2, **extras: int) -> Node:
    cards = tuple(Card(f"{name}/{i}") for i in range(gpus))
    return Node(name, cards, 8000, 1 << 40, extras=tuple(sorted(extras.items())))


def job(name: str, request: Request, tasks: int = 1, hours: float = 1) -> JobSubmitted:
    long_us = int(hours * HOUR_US)
    return JobSubmitted(Job(name, (Role("worker", tasks, request),)), RunTimePrediction(long_us, long_us, "test"))


def driver(*nodes: Node, place: str = "binpack", allowed: dict[str, list[int]] | None = None) -> Driver:
    made = Driver(SchedulerState(Cluster(nodes), make_policies("fifo", "easy", place)), lambda now_us, decisions: None)
    made.apply(0, NodeSetsChanged(masks(len(nodes), allowed or {})))
    return made


def masks(nodes: int, allowed: dict[str, list[int]]) -> dict[str, np.ndarray]:
    return {name: np.isin(np.arange(nodes), which) for name, which in allowed.items()}


def started(driver: Driver, now_us: int = 0) -> dict[str, list[str]]:
    """The nodes of every gang that starts."""
    names = driver.state.space.fixed.node_ids
    return {
        decision.job_id: [names[n] for n in decision.placement.all_nodes()]
        for decision in driver.decide(now_us)
        if isinstance(decision, Start)
    }


@pytest.mark.parametrize("place", PLACES)
class TestEveryPlace:
    def test_goes_only_where_it_may(self, place: str):
        board = driver(node("a"), node("b"), node("c"), place=place, allowed={"here": [2]})
        board.apply(0, job("one", Request(gpus=1, where="here")))
        board.apply(0, job("part", Request(share=Share(1 << 30), where="here")))
        board.apply(0, job("lost", Request(gpus=1, where="unheard of")))
        assert {tuple(nodes) for nodes in started(board).values()} == {("c",)}
        assert "lost" not in board.state.runs

    @pytest.mark.parametrize("request_", [Request(gpus=1, most_per_node=1), Request(share=Share(1), most_per_node=1)])
    def test_no_more_on_a_node_than_it_says(self, place: str, request_: Request):
        board = driver(node("a", 4), node("b", 4), node("c", 4), place=place)
        board.apply(0, job("apart", request_, 3))
        board.apply(0, job("again", request_, 3))
        board.apply(0, job("wide", replace(request_, memory_bytes=1), 4))
        found = started(board)
        assert {name: sorted(nodes) for name, nodes in found.items()} == {"apart": list("abc"), "again": list("abc")}

    def test_what_else_a_node_has_runs_out(self, place: str):
        board = driver(node("a", 4, nic=1), node("b", 4), node("c", 4, nic=2), place=place)
        board.apply(0, job("net", Request(gpus=1, extras=(("nic", 1),)), 3))
        board.apply(0, job("late", Request(gpus=1, extras=(("nic", 1),))))
        assert sorted(started(board)["net"]) == ["a", "c", "c"]
        assert "late" not in board.state.runs


def test_extras_that_come_free_are_counted_on():
    board = driver(node("a", 4, nic=1))
    board.apply(0, job("first", Request(gpus=1, extras=(("nic", 1),)), hours=2))
    board.apply(0, job("next", Request(gpus=1, extras=(("nic", 1),))))
    started(board)
    assert board.state.timeline.reservations["next"].start_us == 2 * HOUR_US
    board.apply(HOUR_US, GangEnded("first", "succeeded"))
    assert started(board, HOUR_US) == {"next": ["a"]}


def test_why_names_what_is_missing():
    board = driver(node("a", 4, nic=1), node("b"), allowed={"b": [1]})
    board.apply(0, job("net", Request(gpus=1, extras=(("nic", 1),))))
    board.apply(0, job("full", Request(gpus=2, where="b")))
    started(board)
    board.apply(0, job("second", Request(gpus=1, extras=(("nic", 1),))))
    board.apply(0, job("bound", Request(gpus=2, where="b")))
    started(board)
    assert [reason.code for reason in why(board.state, "second")] == [ReasonCode.NO_EXTRA]
    assert ReasonCode.WHERE in [reason.code for reason in why(board.state, "bound")]


def test_what_no_node_has_is_refused():
    board = driver(node("a", 4, nic=1), allowed={"nowhere": []})
    for request, word in (
        (Request(gpus=1, extras=(("nic", 2),)), "nic"),
        (Request(gpus=1, extras=(("fpga", 1),)), "fpga"),
        (Request(gpus=1, where="nowhere"), "none of the 1 nodes"),
    ):
        reason = refusal(board.state, job("x", request).job)
        assert reason is not None
        assert word in reason.message


class TestOthers:
    def test_their_cards_and_cores_are_not_ours(self):
        board = driver(node("a", 2, pods=3))
        board.apply(0, ForeignUsageChanged("a", ForeignUsage(7000, 0, (("pods", 2),), ("a/0",))))
        board.apply(0, job("two", Request(gpus=2)))
        board.apply(0, job("cores", Request(gpus=1, cpu_milli=2000)))
        board.apply(0, job("fits", Request(gpus=1, cpu_milli=1000, extras=(("pods", 1),))))
        assert started(board) == {"fits": ["a"]}
        assert board.state.runs["fits"].placement.all_cards() == [1]

    def test_what_they_leave_is_free_at_once(self):
        board = driver(node("a"))
        board.apply(0, ForeignUsageChanged("a", ForeignUsage(cards=("a/0",))))
        board.apply(0, job("two", Request(gpus=2)))
        assert started(board) == {}
        board.apply(1, ForeignUsageChanged("a", ForeignUsage()))
        assert started(board, 1) == {"two": ["a"]}

    def test_a_broken_card_stays_broken_when_they_leave(self):
        board = driver(node("a"))
        board.state.space.set_card_ok(0, False)
        board.apply(0, ForeignUsageChanged("a", ForeignUsage(cards=("a/0",))))
        board.apply(0, ForeignUsageChanged("a", ForeignUsage()))
        assert board.state.space.idle_total == 1


class TestNodesThatComeAndGo:
    def test_who_runs_and_waits_goes_on(self):
        board = driver(node("a"), node("b"))
        for name in ("one", "two", "three"):
            board.apply(0, job(name, Request(gpus=2)))
        started(board)
        board.apply(1, ClusterChanged(Cluster((node("new"), node("b"), node("a")))))
        assert started(board, 1) == {"three": ["new"]}
        assert board.state.space.idle_total == 0
        board.apply(2, GangEnded("one", "succeeded"))
        assert board.state.space.node_idle.tolist() in ([0, 0, 2], [0, 2, 0])

    def test_who_ran_on_a_node_that_is_gone_is_not_known_any_more(self):
        board = driver(node("a"), node("b"))
        board.apply(0, job("one", Request(gpus=2)))
        home = started(board)["one"][0]
        other = "b" if home == "a" else "a"
        board.apply(1, ClusterChanged(Cluster((node(other),))))
        assert "one" not in board.state.runs
        assert board.state.space.idle_total == 2

    def test_what_is_known_of_a_node_stays(self):
        board = driver(node("a"), node("b"))
        board.apply(0, ForeignUsageChanged("b", ForeignUsage(100, cards=("b/1",))))
        board.state.space.set_card_ok(0, False)
        board.apply(1, ClusterChanged(Cluster((node("b"), node("c"), node("a")))))
        space = board.state.space
        assert space.card_idle.tolist() == [True, False, True, True, False, True]
        assert space.node_cpu_free.tolist() == [7900, 8000, 8000]


amounts = st.integers(1, 3)
requests = st.builds(
    lambda gpus, nic, where, most: Request(gpus, extras=(("nic", nic),), where=where, most_per_node=most),
    st.integers(0, 2), amounts, st.sampled_from(["", "even", "none"]), st.integers(0, 2),
)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), requests, amounts),
        st.tuples(st.just("end"), st.integers(0, 20)),
        st.tuples(st.just("others"), st.integers(0, 3), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("nodes"), st.permutations(range(4)).map(lambda order: tuple(order[:3]))),
    ),
    max_size=12,
)


@given(steps, st.sampled_from(PLACES))
def test_whatever_happens_nothing_is_held_twice(steps: list, place: str):
    """And what the space says is free is what nobody holds; a copy through plain data says the same."""
    nodes = [node(f"n{i}", 2, nic=4) for i in range(4)]
    board = driver(*nodes, place=place)
    for at, step in enumerate(steps):
        _take(board, nodes, at, step)
        _allow(board)
        board.decide(at)
        _check(board.state)
    _check(load_snapshot(dump_snapshot(board.state)))


def _take(board: Driver, nodes: list[Node], at: int, step: tuple) -> None:
    state = board.state
    if step[0] == "submit":
        one = job(f"j{at}", step[1], step[2])
        if refusal(state, one.job) is None:
            board.apply(at, one)
    elif step[0] == "end" and len(state.runs):
        board.apply(at, GangEnded(sorted(state.runs.by_id)[step[1] % len(state.runs)], "succeeded"))
    elif step[0] == "others":
        name = state.space.fixed.node_ids[step[1] % len(state.space.fixed.node_ids)]
        idle = state.space.idle_cards_of(state.space.fixed.node_index[name], Request(gpus=1)).tolist()
        cards = tuple(state.space.fixed.card_ids[card] for card in idle[:1]) if step[3] else ()
        board.apply(at, ForeignUsageChanged(name, ForeignUsage(step[2], cards=cards)))
    elif step[0] == "nodes":
        gone = {f"n{i}" for i in range(4)} - {f"n{i}" for i in step[1]}
        for run in list(state.runs.by_id.values()):
            if gone & {state.space.fixed.node_ids[n] for n in run.placement.all_nodes()}:
                board.apply(at, GangEnded(run.job.id, "failed"))
        board.apply(at, ClusterChanged(Cluster(tuple(nodes[i] for i in step[1]))))
        for waiting in list(board.state.queue):
            if refusal(board.state, waiting.job) is not None and not waiting.job.groups[0][0].where:
                board.apply(at, JobCancelled(waiting.job.id))


def _allow(board: Driver) -> None:
    ids = board.state.space.fixed.node_ids
    even = np.array([int(name[1:]) % 2 == 0 for name in ids])
    board.apply(board.state.now_us, NodeSetsChanged({"even": even, "none": np.zeros(len(ids), dtype=bool)}))


def _check(state: SchedulerState) -> None:
    space, fixed = state.space, state.space.fixed
    nic, cards = fixed.node_extras[0].copy(), np.zeros(len(fixed.card_ids), dtype=int)
    for run in state.runs.by_id.values():
        for part in run.placement.parts:
            request = run.job.groups[part.request_index][0]
            np.subtract.at(nic, part.nodes, dict(request.extras)["nic"])
            np.add.at(cards, part.cards.ravel(), 1)
            if request.most_per_node:
                assert np.bincount(part.nodes).max() <= request.most_per_node
            if request.where:
                assert all(int(fixed.node_ids[n][1:]) % 2 == 0 for n in part.nodes)
    assert (nic >= 0).all()
    assert (cards <= 1).all()
    assert space.node_extra_free[0].tolist() == nic.tolist()
    foreign = {fixed.card_index[card] for each in space.foreign.values() for card in each.cards}
    assert not (foreign & set(np.flatnonzero(cards).tolist()))
    assert space.card_idle.tolist() == [not n and i not in foreign for i, n in enumerate(cards)]
    for request in {request for waiting in state.queue for request, _ in waiting.job.groups}:
        assert space.room(request).tolist() == space.copy().room(request).tolist(), "what it remembers is right"
