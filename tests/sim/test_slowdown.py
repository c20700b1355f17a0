"""What slows jobs that share a card in simulations: tables, profiles, and files of measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.model.interference_data import to_data
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.sim.colocation import MEAN_RATIO, PairTable, load_pairs, pairs_of
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.slowdown import by_pairs, by_profile, by_workload, load_slowdown, save_slowdown
from gpusquad.sim.traces import TraceJob

HALF = (Role("w", 1, Request(share=Share(sm_milli=500))),)


def job(name: str, app: str = "", busy: float | None = None) -> Job:
    return Job(name, HALF, app=app, profile=None if busy is None else Profile(busy))


def interval(mean: float) -> ConfidenceInterval:
    return ConfidenceInterval(mean, mean, mean)


def measured(*co_runs: CoRun) -> MeasurementSeries:
    solos = tuple(SoloMeasurement(name, interval(10.0)) for name in "xy")
    return MeasurementSeries(MeasurementSetting("H200", "550", "mps"), 0, solos, co_runs)


def test_a_table_tells_by_application_among_several_by_the_product():
    rate = by_pairs(PairTable({("x", "y"): 0.5, ("x", "x"): 0.8}, 0.6))
    assert rate(job("a", "x"), [job("b", "y"), job("c", "x")]) == pytest.approx(0.4)
    assert rate(job("a", "x"), [job("b", "unknown")]) == 0.6
    assert rate(job("a", "x"), []) == 1.0


def test_a_neighbour_makes_nobody_faster_and_one_that_does_not_fit_leaves_nothing():
    rate = by_pairs(PairTable({("x", "y"): 1.3, ("x", "z"): 0.0}))
    assert rate(job("a", "x"), [job("b", "y")]) == 1.0
    assert rate(job("a", "x"), [job("b", "y"), job("c", "z")]) == 0.0


def test_who_is_put_beside_whom_it_does_not_fit_still_ends():
    jobs = [TraceJob(job(name, name), 100 * US_PER_S) for name in "xy"]
    rate = by_pairs(PairTable({("x", "y"): 0.0, ("y", "x"): 1.0}))
    result = simulate(Scenario(grid("1x1"), jobs, make_policies(place="binpack"), exact, rate=rate))
    ends_s = [(outcome.ended_us or 0) / US_PER_S for outcome in result.outcomes]
    assert ends_s == [pytest.approx(199), 100]  # a hundredth of its speed, then all of it


def test_profiles_divide_the_time_of_a_card_that_is_full():
    assert by_profile(job("a", busy=0.8), [job("b", busy=0.8)]) == pytest.approx(1 / 1.6)
    assert by_profile(job("a", busy=0.3), [job("b", busy=0.3)]) == 1.0


def test_jobs_bear_the_name_of_what_they_ran_where_the_trace_tells():
    traces = [TraceJob(job("a", "label"), 1, workload="x"), TraceJob(job("b", "label"), 1)]
    assert [trace.job.app for trace in by_workload(traces)] == ["x", "label"]


def test_a_table_saved_beside_a_snapshot_tells_the_same():
    table = PairTable({("x", "y"): 0.5, ("y", "x"): 0.7, ("z", "x"): 0.1}, 0.6)
    a, b = job("a", "x"), job("b", "y")
    saved = json.loads(json.dumps(save_slowdown(table, [a, b])))
    assert ["z", "x", 0.1] not in saved["ratios"]
    loaded = load_slowdown(saved, "sharing")
    assert (loaded(a, [b]), loaded(b, [a])) == (0.5, 0.7)
    assert load_slowdown(save_slowdown(None, []), "sharing") is by_profile


def test_what_was_measured_is_a_table_of_pairs(tmp_path: Path):
    both = (1000, 1000)
    runs = (
        CoRun(("x", "y"), both, (interval(0.6), interval(0.8))),
        CoRun(("x", "x"), both, (interval(0.5), interval(0.5))),
        CoRun(("x", "y"), (500, 500), (interval(0.3), interval(0.3))),
        CoRun(("y", "y"), both),
    )
    table = pairs_of(measured(*runs))
    assert table.ratios == {("x", "y"): 0.6, ("y", "x"): 0.8, ("x", "x"): 0.5, ("y", "y"): 0.0}
    assert table.default_ratio == pytest.approx((0.6 + 0.8 + 0.5) / 3)
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(to_data(measured(*runs))))
    assert load_pairs(path) == table
    assert table.gpu == "H200"
    assert pairs_of(measured()).default_ratio == MEAN_RATIO
