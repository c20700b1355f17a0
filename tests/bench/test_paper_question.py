"""Tests of the paper question (eight jobs on four cards) with draws that can be computed by hand."""

from __future__ import annotations

from itertools import permutations

import pytest

from bench.paper_question import Oracle, PolicyTimes, answer, pair_times
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.sim.colocation import PairTable, pairs_of

GB = 10**9
RATIOS = {"xx": 0.5, "yy": 0.5, "zz": 0.4, "xy": 0.9, "xz": 0.7, "yz": 0.3}


def interval(mean: float) -> ConfidenceInterval:
    return ConfidenceInterval(mean, mean, mean)


def measured() -> MeasurementSeries:
    sizes = {"x": 4, "y": 5, "z": 6}
    solos = tuple(
        SoloMeasurement(name, interval(1.0), memory_bytes=gb * GB, utilisation_ratio=0.5) for name, gb in sizes.items()
    )
    runs = tuple(
        CoRun((a, b), (1000, 1000), (interval(ratio), interval(ratio)) if ratio else ())
        for (a, b), ratio in RATIOS.items()
    )
    return MeasurementSeries(MeasurementSetting("H200", "550", "mps", 18 * GB), 0, solos, runs)


def test_slower_job_of_a_pair_continues_alone():
    table = pairs_of(measured())
    assert pair_times(table, "x", "y") == pytest.approx((2 / 0.9, 1 / 0.9))
    assert pair_times(PairTable({("x", "y"): 1.0, ("y", "x"): 0.5}), "x", "y") == (1 + 1.5, 1.5)
    assert pair_times(PairTable({("x", "y"): 1.0, ("y", "x"): 0.0}), "x", "y") == (3.0, 2.0)


def test_oracle_is_the_best_of_all_pairings():
    table = pairs_of(measured())
    oracle = Oracle(table)
    for draw in (("x", "x", "y", "y"), ("x", "y", "y", "z", "z", "z"), ("z",) * 4):
        totals = [_total(table, order) for order in permutations(draw)]
        assert oracle.total(draw) == pytest.approx(min(totals))


def _total(table, order) -> float:
    return sum(pair_times(table, order[i], order[i + 1])[0] for i in range(0, len(order), 2))


def test_place_policies_decide_through_the_core():
    policy_times = PolicyTimes(measured())
    draw = ("x",) * 4 + ("y",) * 4
    best = Oracle(pairs_of(measured())).total(draw)
    assert policy_times.times("interference", draw)[0] == pytest.approx(best)
    assert policy_times.times("standalone", draw)[0] == pytest.approx(8 / 0.5)


def test_jobs_that_gain_nothing_by_sharing_run_one_after_another():
    total, last = PolicyTimes(measured()).times("interference", ("z",) * 8)
    assert (total, last) == (4 * 1 + 4 * 2, 2)
    assert PolicyTimes(measured()).times("interference, never waiting", ("z",) * 8)[0] == pytest.approx(8 / 0.4)


def test_every_draw_has_times_of_every_policy():
    found = answer(measured(), ("x", "y"), processes=1)
    assert len(found.draws) == 9
    assert all((found.over(name, 0) > -1).all() for name in found.times)
    assert found.over("interference, never waiting", 0).max() < 0.1
