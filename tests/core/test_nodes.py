"""Nodes: extra resources, allowed nodes of a request, foreign usage, and nodes that are added or removed."""

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


def submission(name: str, request: Request, tasks: int = 1, hours: float = 1) -> JobSubmitted:
    long_us = int(hours * HOUR_US)
    return JobSubmitted(Job(name, (Role("worker", tasks, request),)), RunTimePrediction(long_us, long_us, "test"))


def make_driver(*nodes: Node, place: str = "binpack", allowed: dict[str, list[int]] | None = None) -> Driver:
    driver = Driver(
        SchedulerState(Cluster(nodes), make_policies("fifo", "easy", place)), lambda now_us, decisions: None
    )
    driver.apply(0, NodeSetsChanged(masks(len(nodes), allowed or {})))
    return driver


def masks(nodes: int, allowed: dict[str, list[int]]) -> dict[str, np.ndarray]:
    return {name: np.isin(np.arange(nodes), indices) for name, indices in allowed.items()}


def started(driver: Driver, now_us: int = 0) -> dict[str, list[str]]:
    """Nodes of every gang that starts, by job."""
    names = driver.state.space.fixed.node_ids
    return {
        decision.job_id: [names[n] for n in decision.placement.all_nodes()]
        for decision in driver.decide(now_us)
        if isinstance(decision, Start)
    }


@pytest.mark.parametrize("place", PLACES)
class TestEveryPlacePolicy:
    def test_tasks_are_placed_only_on_allowed_nodes(self, place: str):
        driver = make_driver(node("a"), node("b"), node("c"), place=place, allowed={"here": [2]})
        driver.apply(0, submission("one", Request(gpus=1, where="here")))
        driver.apply(0, submission("part", Request(share=Share(1 << 30), where="here")))
        driver.apply(0, submission("lost", Request(gpus=1, where="unheard of")))
        assert {tuple(nodes) for nodes in started(driver).values()} == {("c",)}
        assert "lost" not in driver.state.runs

    @pytest.mark.parametrize("request_", [Request(gpus=1, most_per_node=1), Request(share=Share(1), most_per_node=1)])
    def test_tasks_per_node_stay_within_most_per_node(self, place: str, request_: Request):
        driver = make_driver(node("a", 4), node("b", 4), node("c", 4), place=place)
        driver.apply(0, submission("apart", request_, 3))
        driver.apply(0, submission("again", request_, 3))
        driver.apply(0, submission("wide", replace(request_, memory_bytes=1), 4))
        started_nodes = started(driver)
        assert {name: sorted(nodes) for name, nodes in started_nodes.items()} == {
            "apart": list("abc"),
            "again": list("abc"),
        }

    def test_extras_of_a_node_are_not_overcommitted(self, place: str):
        driver = make_driver(node("a", 4, nic=1), node("b", 4), node("c", 4, nic=2), place=place)
        driver.apply(0, submission("net", Request(gpus=1, extras=(("nic", 1),)), 3))
        driver.apply(0, submission("late", Request(gpus=1, extras=(("nic", 1),))))
        assert sorted(started(driver)["net"]) == ["a", "c", "c"]
        assert "late" not in driver.state.runs


def test_reservation_starts_when_extras_become_free():
    driver = make_driver(node("a", 4, nic=1))
    driver.apply(0, submission("first", Request(gpus=1, extras=(("nic", 1),)), hours=2))
    driver.apply(0, submission("next", Request(gpus=1, extras=(("nic", 1),))))
    started(driver)
    assert driver.state.timeline.reservations["next"].start_us == 2 * HOUR_US
    driver.apply(HOUR_US, GangEnded("first", "succeeded"))
    assert started(driver, HOUR_US) == {"next": ["a"]}


def test_reasons_name_missing_extras_and_disallowed_nodes():
    driver = make_driver(node("a", 4, nic=1), node("b"), allowed={"b": [1]})
    driver.apply(0, submission("net", Request(gpus=1, extras=(("nic", 1),))))
    driver.apply(0, submission("full", Request(gpus=2, where="b")))
    started(driver)
    driver.apply(0, submission("second", Request(gpus=1, extras=(("nic", 1),))))
    driver.apply(0, submission("bound", Request(gpus=2, where="b")))
    started(driver)
    assert [reason.code for reason in why(driver.state, "second")] == [ReasonCode.NO_EXTRA]
    assert ReasonCode.WHERE in [reason.code for reason in why(driver.state, "bound")]


def test_request_that_no_node_can_meet_is_refused():
    driver = make_driver(node("a", 4, nic=1), allowed={"nowhere": []})
    for request, fragment in (
        (Request(gpus=1, extras=(("nic", 2),)), "nic"),
        (Request(gpus=1, extras=(("fpga", 1),)), "fpga"),
        (Request(gpus=1, where="nowhere"), "the only node is not allowed"),
    ):
        reason = refusal(driver.state, submission("x", request).job)
        assert reason is not None
        assert fragment in reason.message


class TestForeignUsage:
    def test_foreign_cards_and_cores_are_not_used(self):
        driver = make_driver(node("a", 2, pods=3))
        driver.apply(0, ForeignUsageChanged("a", ForeignUsage(7000, 0, (("pods", 2),), ("a/0",))))
        driver.apply(0, submission("two", Request(gpus=2)))
        driver.apply(0, submission("cores", Request(gpus=1, cpu_milli=2000)))
        driver.apply(0, submission("fits", Request(gpus=1, cpu_milli=1000, extras=(("pods", 1),))))
        assert started(driver) == {"fits": ["a"]}
        assert driver.state.runs["fits"].placement.all_cards() == [1]

    def test_released_foreign_cards_are_free_at_once(self):
        driver = make_driver(node("a"))
        driver.apply(0, ForeignUsageChanged("a", ForeignUsage(cards=("a/0",))))
        driver.apply(0, submission("two", Request(gpus=2)))
        assert started(driver) == {}
        driver.apply(1, ForeignUsageChanged("a", ForeignUsage()))
        assert started(driver, 1) == {"two": ["a"]}

    def test_faulty_card_stays_faulty_when_foreign_usage_ends(self):
        driver = make_driver(node("a"))
        driver.state.space.set_card_ok(0, False)
        driver.apply(0, ForeignUsageChanged("a", ForeignUsage(cards=("a/0",))))
        driver.apply(0, ForeignUsageChanged("a", ForeignUsage()))
        assert driver.state.space.idle_total == 1


class TestChangedNodes:
    def test_running_and_pending_jobs_survive_a_change_of_nodes(self):
        driver = make_driver(node("a"), node("b"))
        for name in ("one", "two", "three"):
            driver.apply(0, submission(name, Request(gpus=2)))
        started(driver)
        driver.apply(1, ClusterChanged(Cluster((node("new"), node("b"), node("a")))))
        assert started(driver, 1) == {"three": ["new"]}
        assert driver.state.space.idle_total == 0
        driver.apply(2, GangEnded("one", "succeeded"))
        assert driver.state.space.node_idle.tolist() in ([0, 0, 2], [0, 2, 0])

    def test_run_on_a_removed_node_is_dropped(self):
        driver = make_driver(node("a"), node("b"))
        driver.apply(0, submission("one", Request(gpus=2)))
        node_name = started(driver)["one"][0]
        other = "b" if node_name == "a" else "a"
        driver.apply(1, ClusterChanged(Cluster((node(other),))))
        assert "one" not in driver.state.runs
        assert driver.state.space.idle_total == 2

    def test_foreign_usage_and_faults_survive_a_change_of_nodes(self):
        driver = make_driver(node("a"), node("b"))
        driver.apply(0, ForeignUsageChanged("b", ForeignUsage(100, cards=("b/1",))))
        driver.state.space.set_card_ok(0, False)
        driver.apply(1, ClusterChanged(Cluster((node("b"), node("c"), node("a")))))
        space = driver.state.space
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
def test_free_capacity_is_exact_after_any_sequence_of_events(steps: list, place: str):
    """Free capacity is what no gang and no foreign usage holds, also after dump and load."""
    nodes = [node(f"n{i}", 2, nic=4) for i in range(4)]
    driver = make_driver(*nodes, place=place)
    for at, step in enumerate(steps):
        _apply(driver, nodes, at, step)
        _allow(driver)
        driver.decide(at)
        _check(driver.state)
    _check(load_snapshot(dump_snapshot(driver.state)))


def _apply(driver: Driver, nodes: list[Node], at: int, step: tuple) -> None:
    state = driver.state
    if step[0] == "submit":
        submitted = submission(f"j{at}", step[1], step[2])
        if refusal(state, submitted.job) is None:
            driver.apply(at, submitted)
    elif step[0] == "end" and len(state.runs):
        driver.apply(at, GangEnded(sorted(state.runs.by_id)[step[1] % len(state.runs)], "succeeded"))
    elif step[0] == "others":
        name = state.space.fixed.node_ids[step[1] % len(state.space.fixed.node_ids)]
        idle = state.space.idle_cards_of(state.space.fixed.node_index[name], Request(gpus=1)).tolist()
        cards = tuple(state.space.fixed.card_ids[card] for card in idle[:1]) if step[3] else ()
        driver.apply(at, ForeignUsageChanged(name, ForeignUsage(step[2], cards=cards)))
    elif step[0] == "nodes":
        gone = {f"n{i}" for i in range(4)} - {f"n{i}" for i in step[1]}
        for run in list(state.runs.by_id.values()):
            if gone & {state.space.fixed.node_ids[n] for n in run.placement.all_nodes()}:
                driver.apply(at, GangEnded(run.job.id, "failed"))
        driver.apply(at, ClusterChanged(Cluster(tuple(nodes[i] for i in step[1]))))
        for waiting in list(driver.state.queue):
            if refusal(driver.state, waiting.job) is not None and not waiting.job.groups[0][0].where:
                driver.apply(at, JobCancelled(waiting.job.id))


def _allow(driver: Driver) -> None:
    ids = driver.state.space.fixed.node_ids
    even = np.array([int(name[1:]) % 2 == 0 for name in ids])
    driver.apply(driver.state.now_us, NodeSetsChanged({"even": even, "none": np.zeros(len(ids), dtype=bool)}))


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
    foreign = {fixed.card_index[card] for usage in space.foreign.values() for card in usage.cards}
    assert not (foreign & set(np.flatnonzero(cards).tolist()))
    assert space.card_idle.tolist() == [not n and i not in foreign for i, n in enumerate(cards)]
    for request in {request for waiting in state.queue for request, _ in waiting.job.groups}:
        assert space.room(request).tolist() == space.copy().room(request).tolist(), "the cached room is correct"
