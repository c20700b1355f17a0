"""Objectives and claims of the bench of mode auto."""

import pytest

from bench import auto_mode
from bench.auto_mode import Ran, claims, cluster_for, deadlines_met, light_tenants_wait_h, pushed_back_min
from gpusquad.model.cluster import grid
from gpusquad.model.job import Slo
from gpusquad.sim.outcome import AttemptSpan, Outcome
from tests.strategies import gang

HOUR_S, HOUR_US = 3600, 3_600_000_000


def outcome(name: str, gpus: int, run_h: float, at_h: float, start_h: float, **rest) -> Outcome:
    trace = gang(name, gpus, run_h * HOUR_S, at_h * HOUR_S, **rest)
    start_us, end_us = round(start_h * HOUR_US), round((start_h + run_h) * HOUR_US)
    return Outcome(trace.job, trace.run_us, "succeeded", end_us, [AttemptSpan(start_us, end_us, ())])


def test_tenants_above_an_equal_share_do_not_count():
    outcomes = [
        outcome("heavy", 2, 20, 0, 9, tenant="heavy"),
        outcome("one", 1, 1, 0, 1, tenant="a"),
        outcome("two", 1, 1, 0, 3, tenant="a"),
        outcome("three", 1, 1, 0, 4, tenant="b"),
    ]
    assert light_tenants_wait_h(outcomes, grid("1x2")) == pytest.approx(3.0)  # the mean of 2 h and 4 h


def test_deadlines_are_met_by_the_end():
    asked = {"slo": Slo(deadline_us=2 * HOUR_US)}
    outcomes = [
        outcome("met", 1, 1, 0, 1, **asked),
        outcome("late", 1, 1, 0, 1.1, **asked),
        outcome("none", 1, 1, 0, 9),
    ]
    assert deadlines_met(outcomes, grid("1x2")) == 0.5


def test_delay_is_beside_the_order_of_requests_without_backfill():
    outcomes = [outcome("first", 2, 1, 0, 1), outcome("second", 2, 1, 0, 0)]
    assert pushed_back_min(outcomes, grid("1x2")) == pytest.approx(30.0)  # the first by an hour, the second not


def test_cluster_holds_the_widest_gang_and_the_work_until_the_last_submission():
    assert cluster_for([gang("wide", 20, 1, 0), gang("last", 1, 1, 100)]).gpus == 24
    assert cluster_for([gang("busy", 4, 1000, 0)] * 5 + [gang("last", 1, 1, 100)]).gpus == 24


def test_bar_is_the_best_that_auto_could_have_chosen_less_the_noise():
    ran = {mode: Ran(value, 1.0) for mode, value in {"standard": 10.0, "slo": 5.0, "fair": 8.0, "jct": 1.0}.items()}
    ran |= {"auto": Ran(5.05, 1.0, ("standard", "slo")), "predictive": Ran(1.0, 1.0)}
    found = {one["name"]: one for one in claims("services", ran)}
    auto = found["services: auto, mean delay of services"]
    assert (auto["ok"], auto["bar"], auto["baseline"]) == (True, pytest.approx(5.1), 10.0)
    assert found["services: standard then slo; changes"]["value"] == 1
    worse = claims("services", ran | {"auto": Ran(6.0, 1.0, ("standard",))})
    assert worse[0]["ok"] is False


def test_candidates_are_the_modes_of_the_rules():
    assert set(auto_mode._choosable()) == {"standard", "slo", "fair"}
