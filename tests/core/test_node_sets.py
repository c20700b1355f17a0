"""Sets of allowed nodes that change with the jobs that start."""

from __future__ import annotations

from collections.abc import Set

import numpy as np
import pytest

from gpusquad.core.cycle import cycle
from gpusquad.core.driver import Driver
from gpusquad.core.ports import ClusterChanged, GangEnded, JobSubmitted, NodeSetsChanged
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.decision import Start
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.node_sets import NodeSets
from gpusquad.model.placement import Placement
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction

KINDS = ("cpu", "gpu", "share")
FORECAST = RunTimePrediction(US_PER_S, US_PER_S, "test")


class Apart(NodeSets):
    """No two of the waiting jobs may share a node."""

    def __init__(self, free: np.ndarray, waiting: Set[str], given: NodeSets | None = None) -> None:
        super().__init__(apart=free)
        self._waiting, self._given = waiting, given

    @property
    def given(self) -> NodeSets:
        return self._given or self

    @property
    def awaited(self) -> Set[str]:
        return self._waiting

    def with_start(self, job_id: str, placement: Placement) -> NodeSets:
        if job_id not in self._waiting:
            return self
        free = self["apart"].copy()
        free[placement.all_nodes()] = False
        return Apart(free, self._waiting, self.given)


class Near(NodeSets):
    """Only nodes with a job of these are allowed."""

    def __init__(self, waiting: Set[str], there: np.ndarray | None = None, given: NodeSets | None = None) -> None:
        super().__init__(near=np.zeros(4, bool) if there is None else there)
        self._waiting, self._given = waiting, given

    @property
    def given(self) -> NodeSets:
        return self._given or self

    @property
    def awaited(self) -> Set[str]:
        return self._waiting

    def with_start(self, job_id: str, placement: Placement) -> NodeSets:
        if job_id not in self._waiting:
            return self
        there = self["near"].copy()
        there[placement.all_nodes()] = True
        return Near(self._waiting, there, self.given)


def make_driver(cluster: Cluster | None = None, place: str = "binpack") -> Driver:
    state = SchedulerState(cluster or grid("4x4"), make_policies("fifo", "easy", place))
    return Driver(state, lambda now_us, decisions: None)


def report(driver: Driver, *waiting: str, taken: tuple[int, ...] = (), nodes: int = 4) -> None:
    free = np.ones(nodes, bool)
    free[list(taken)] = False
    driver.apply(0, NodeSetsChanged(Apart(free, frozenset(waiting))))


def submit(driver: Driver, *names: str, kind: str = "gpu") -> None:
    for number, name in enumerate(names):
        driver.apply(0, JobSubmitted(Job(name, (Role("main", 1, request(kind, number)),)), FORECAST))


def request(kind: str, number: int) -> Request:
    """Shares grow, so that place policies would place the last one first."""
    if kind == "share":
        return Request(share=Share(memory_milli=100 + number), where="apart")
    return Request(gpus=1, where="apart") if kind == "gpu" else Request(cpu_milli=1, where="apart")


def starts(driver: Driver) -> dict[str, int]:
    """Node of each job that starts."""
    return {
        decision.job_id: int(decision.placement.all_nodes()[0])
        for decision in driver.decide(0)
        if isinstance(decision, Start)
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["binpack", "measured", "topology", "balance"])
def test_jobs_of_one_cycle_count_for_each_other(kind: str, place: str) -> None:
    driver = make_driver(place=place)
    report(driver, *"abcde")
    submit(driver, *"abcde", kind=kind)
    assert sorted(starts(driver).values()) == [0, 1, 2, 3]


def test_guests_of_a_reservation_count_for_each_other() -> None:
    driver = make_driver()
    long = RunTimePrediction(1000 * US_PER_S, 1000 * US_PER_S, "test")
    driver.apply(0, JobSubmitted(Job("runs", (Role("main", 1, Request(gpus=1)),)), long))
    driver.decide(0)
    driver.apply(0, JobSubmitted(Job("head", (Role("main", 16, Request(gpus=1)),)), long))
    assert starts(driver) == {}
    report(driver, *"abcd")
    submit(driver, *"abcd")
    assert sorted(starts(driver).values()) == [0, 1, 2, 3]


def test_guest_starts_where_an_earlier_guest_attracts_it() -> None:
    """In the next cycle, although nothing but the sets has changed."""
    driver = make_driver()
    long = RunTimePrediction(1000 * US_PER_S, 1000 * US_PER_S, "test")
    driver.apply(0, JobSubmitted(Job("runs", (Role("main", 1, Request(gpus=4)),)), long))
    assert starts(driver) == {"runs": 0}
    driver.apply(0, JobSubmitted(Job("head", (Role("main", 16, Request(gpus=1)),)), long))
    starts(driver)
    driver.apply(0, NodeSetsChanged(Near(frozenset("a"), np.arange(4) == 0)))
    driver.apply(0, JobSubmitted(Job("b", (Role("main", 1, Request(gpus=1, where="near")),)), FORECAST))
    driver.apply(0, JobSubmitted(Job("c", (Role("main", 1, Request(gpus=1, where="near")),)), FORECAST))
    driver.apply(0, JobSubmitted(Job("a", (Role("main", 1, Request(gpus=1)),)), FORECAST))
    first = starts(driver)
    assert first.keys() == {"a"}
    driver.apply(0, NodeSetsChanged(Near(frozenset(), np.isin(np.arange(4), (0, first["a"])))))
    assert starts(driver) == {"b": first["a"], "c": first["a"]}


def test_start_counts_until_a_report_does() -> None:
    driver = make_driver()
    report(driver, *"abc")
    submit(driver, "a")
    assert starts(driver) == {"a": 0}
    report(driver, *"abc")  # made before the engine knew of the start
    submit(driver, "b")
    assert starts(driver) == {"b": 1}
    report(driver, "b", "c", taken=(0,))
    submit(driver, "c")
    assert starts(driver) == {"c": 2}


def test_start_that_fails_counts_no_longer() -> None:
    driver = make_driver()
    report(driver, *"ab")
    submit(driver, "a")
    starts(driver)
    driver.apply(0, GangEnded("a", "lost"))
    assert driver.state.space.allowed["apart"].all()


def test_jobs_that_found_no_node_are_tried_again_after_the_report_of_a_start() -> None:
    """A start may have attracted them, which the report shows; the core need not know."""
    driver = make_driver()
    report(driver, *"ab", taken=(1, 2, 3))
    submit(driver, *"ab")
    assert starts(driver) == {"a": 0}
    report(driver, "b", taken=(0, 2, 3))
    assert starts(driver) == {"b": 1}


def test_start_counts_after_nodes_were_added() -> None:
    driver = make_driver()
    report(driver, *"ab")
    submit(driver, "a")
    starts(driver)
    driver.apply(0, ClusterChanged(grid("5x4")))
    report(driver, *"ab", nodes=5)
    assert driver.state.space.allowed["apart"].tolist() == [False, True, True, True, True]


def test_copies_of_the_state_do_not_share_starts() -> None:
    driver = make_driver()
    report(driver, *"ab")
    submit(driver, *"ab")
    copy = copy_state(driver.state)
    cycle(copy, 0)
    assert driver.state.space.allowed["apart"].all()
    assert copy.space.allowed["apart"].sum() == 2
