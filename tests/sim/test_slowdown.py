"""Interference in simulations: tables, profiles and measurement files."""

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


def job(name: str, app: str = "", utilisation: float | None = None) -> Job:
    return Job(name, HALF, app=app, profile=None if utilisation is None else Profile(utilisation))


def interval(mean: float) -> ConfidenceInterval:
    return ConfidenceInterval(mean, mean, mean)


def measurements(*co_runs: CoRun) -> MeasurementSeries:
    solos = tuple(SoloMeasurement(name, interval(10.0)) for name in "xy")
    return MeasurementSeries(MeasurementSetting("H200", "550", "mps"), 0, solos, co_runs)


def test_rate_of_a_table_is_the_product_over_the_neighbours():
    rate = by_pairs(PairTable({("x", "y"): 0.5, ("x", "x"): 0.8}, 0.6))
    assert rate(job("a", "x"), [job("b", "y"), job("c", "x")]) == pytest.approx(0.4)
    assert rate(job("a", "x"), [job("b", "unknown")]) == 0.6
    assert rate(job("a", "x"), []) == 1.0


def test_rate_is_at_most_one_and_zero_beside_a_neighbour_that_does_not_fit():
    rate = by_pairs(PairTable({("x", "y"): 1.3, ("x", "z"): 0.0}))
    assert rate(job("a", "x"), [job("b", "y")]) == 1.0
    assert rate(job("a", "x"), [job("b", "y"), job("c", "z")]) == 0.0


def test_job_at_rate_zero_still_ends_in_a_simulation():
    jobs = [TraceJob(job(name, name), 100 * US_PER_S) for name in "xy"]
    rate = by_pairs(PairTable({("x", "y"): 0.0, ("y", "x"): 1.0}))
    result = simulate(Scenario(grid("1x1"), jobs, make_policies(place="binpack"), exact, rate=rate))
    ends_s = [(outcome.ended_us or 0) / US_PER_S for outcome in result.outcomes]
    assert ends_s == [pytest.approx(199), 100]  # at one hundredth of its speed, then at full speed


def test_profile_rate_divides_the_time_of_a_full_card():
    assert by_profile(job("a", utilisation=0.8), [job("b", utilisation=0.8)]) == pytest.approx(1 / 1.6)
    assert by_profile(job("a", utilisation=0.3), [job("b", utilisation=0.3)]) == 1.0


def test_app_is_the_workload_of_the_trace_when_known():
    traced_jobs = [TraceJob(job("a", "label"), 1, workload="x"), TraceJob(job("b", "label"), 1)]
    assert [trace.job.app for trace in by_workload(traced_jobs)] == ["x", "label"]


def test_saved_table_gives_the_same_rates():
    table = PairTable({("x", "y"): 0.5, ("y", "x"): 0.7, ("z", "x"): 0.1}, 0.6)
    a, b = job("a", "x"), job("b", "y")
    saved = json.loads(json.dumps(save_slowdown(table, [a, b])))
    assert ["z", "x", 0.1] not in saved["ratios"]
    loaded = load_slowdown(saved, "sharing")
    assert (loaded(a, [b]), loaded(b, [a])) == (0.5, 0.7)
    assert load_slowdown(save_slowdown(None, []), "sharing") is by_profile


def test_measurements_become_a_table_of_pairs(tmp_path: Path):
    full_card = (1000, 1000)
    runs = (
        CoRun(("x", "y"), full_card, (interval(0.6), interval(0.8))),
        CoRun(("x", "x"), full_card, (interval(0.5), interval(0.5))),
        CoRun(("x", "y"), (500, 500), (interval(0.3), interval(0.3))),
        CoRun(("y", "y"), full_card),
    )
    table = pairs_of(measurements(*runs))
    assert table.ratios == {("x", "y"): 0.6, ("y", "x"): 0.8, ("x", "x"): 0.5, ("y", "y"): 0.0}
    assert table.default_ratio == pytest.approx((0.6 + 0.8 + 0.5) / 3)
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(to_data(measurements(*runs))))
    assert load_pairs(path) == table
    assert table.gpu == "H200"
    assert pairs_of(measurements()).default_ratio == MEAN_RATIO
