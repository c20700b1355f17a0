"""Liars in every mode, with the service's predictor and nothing set: the job that waits for all cards is late by at
most one overrun, however many jobs come after it."""

from __future__ import annotations

import pytest

from gpusquad.model.cluster import GIB, grid
from gpusquad.model.job import Request, Role, Share
from gpusquad.modes import load_mode, mode_names
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate
from gpusquad.sim.traces import TraceJob
from tests.audit import audit
from tests.strategies import gang, make_trace, starts_s

ESTIMATE_S, RUN_S, FIRST_S = 300, 1200, 600
IN_TURN = ("fifo", "fairshare", "slo")
OVERRUN_S = RUN_S - ESTIMATE_S
NUMBER = 60


def play(mode: str, *later: TraceJob) -> SimulationResult:
    """Six of eight cards are in use for 10 minutes, and the head needs all of them."""
    chosen = load_mode(mode)
    jobs = (gang("ahead", 6, FIRST_S), gang("head", 8, 100, 1), *later)
    feed = PredictorFeed(chosen.predictor or "combined", chosen.uses)
    return simulate(Scenario(grid("1x8"), jobs, chosen.policies(), on_cycle=audit, **feed.parts()))


def liars(**rest) -> list[TraceJob]:
    return [gang(f"liar{i:04}", 2, RUN_S, 2 + i, estimate=ESTIMATE_S, **rest) for i in range(NUMBER)]


def late_s(result: SimulationResult) -> float:
    start_s = starts_s(result)["head"]
    assert start_s is not None
    return start_s - FIRST_S


def passed(result: SimulationResult) -> list[str]:
    starts = starts_s(result)
    return [name for name, start in starts.items() if name != "ahead" and start < starts["head"]]


modes = pytest.mark.parametrize("mode", [name for name in mode_names() if name != "auto"])
in_request_order = pytest.mark.parametrize(
    "mode", [name for name in mode_names() if name != "auto" and load_mode(name).order.partition(":")[0] in IN_TURN]
)


@modes
def test_head_is_late_by_one_overrun_and_passed_by_one_liar(mode: str):
    result = play(mode, *liars())
    assert late_s(result) <= OVERRUN_S
    assert passed(result) == ["liar0000"]


@modes
def test_liars_of_several_tenants(mode: str):
    later = [gang(f"l{i}", 2, RUN_S, 2 + i, estimate=ESTIMATE_S, tenant=f"t{i}", user=f"u{i}") for i in range(NUMBER)]
    result = play(mode, *later)
    assert late_s(result) <= OVERRUN_S
    assert passed(result) == ["l0"]


@modes
def test_liar_that_never_ends_is_followed_by_none(mode: str):
    result = play(mode, gang("endless", 2, 1e6, 2, estimate=ESTIMATE_S), *liars())
    assert passed(result) == ["endless"]


@modes
def test_elastic_liars(mode: str):
    roles = (Role("worker", 2, Request(gpus=1), 1, 2),)
    later = [make_trace(f"l{i}", roles, RUN_S, 2 + i, estimate=ESTIMATE_S) for i in range(NUMBER)]
    result = play(mode, *later)
    assert late_s(result) <= 2 * RUN_S - ESTIMATE_S  # half of its tasks need twice the time
    assert len(passed(result)) <= 2


@in_request_order  # an order by merit may let jobs of half a card go first by right
def test_liars_on_shared_cards(mode: str):
    half = Request(share=Share(4 * GIB, 500))
    later = [make_trace(f"l{i}", half, RUN_S, 2 + i, estimate=ESTIMATE_S) for i in range(NUMBER)]
    result = play(mode, *later)
    assert late_s(result) <= OVERRUN_S
    assert len(passed(result)) <= 4
