"""Errors and calibration of predicted run times, compared with a direct computation."""

from __future__ import annotations

from math import log
from statistics import mean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.server.services.prediction.accuracy import at_levels, errors, record, report
from gpusquad.store.run_forecasts import CUT, RunForecastRow

SECOND_US = 1_000_000
us = st.integers(1, 10**6).map(lambda second: second * SECOND_US)


@st.composite
def rows(draw: st.DrawFn) -> RunForecastRow:
    levels = draw(st.sampled_from([LEVELS, (0.5,), (0.5, 0.9), ()]))
    values = sorted(draw(st.lists(us, min_size=len(levels), max_size=len(levels))))
    how = draw(st.sampled_from(["succeeded", "failed", *CUT]))
    return RunForecastRow(
        draw(st.sampled_from("ab")), 0, 0, draw(st.sampled_from(["red", "blue"])), "ada",
        draw(st.sampled_from(["history", "user"])) if levels else "none", truth_us=draw(us), how=how, settled_us=1,
        levels=list(levels), values_us=values,
    )  # fmt: skip


def at(row: RunForecastRow, level: float) -> int:
    return Quantiles(tuple(row.levels), tuple(row.values_us), "x").at(level)


@given(st.lists(rows(), max_size=12))
def test_errors_equal_a_direct_computation(found: list[RunForecastRow]) -> None:
    result = errors("all", found)
    scored = [row for row in found if row.levels and row.how in ("succeeded", "failed")]
    assert (result["count"], result["cut"]) == (len(scored), sum(row.how in CUT for row in found))
    if not scored:
        assert result["median_ratio"] is result["pinball_s"] is None
        assert record(found) is None
        return
    truths = [(row, row.truth_us or 0) for row in scored]
    deviations_us = [abs(truth - at(row, 0.5)) for row, truth in truths]
    assert result["median_ratio"] == pytest.approx(
        median(deviation_us / truth for deviation_us, (_, truth) in zip(deviations_us, truths, strict=True))
    )
    assert result["mean_error_s"] == pytest.approx(mean(deviations_us) / SECOND_US)
    for level, fraction in ((0.5, result["within_p50"]), (0.9, result["within_p90"]), (0.99, result["within_p99"])):
        assert fraction == pytest.approx(mean(truth <= at(row, level) for row, truth in truths))
    assert result["bias"] == pytest.approx(median(log(truth / at(row, 0.5)) for row, truth in truths), abs=1e-9)
    losses = [
        level * (truth - at(row, level)) if truth > at(row, level) else (1 - level) * (at(row, level) - truth)
        for row, truth in truths
        for level in LEVELS
    ]
    assert result["pinball_s"] == pytest.approx(mean(losses) / SECOND_US)
    summary = record(found)
    assert summary is not None
    assert (summary.count, summary.within_ratio, summary.median_ratio) == (
        result["count"],
        result["within_p90"],
        result["median_ratio"],
    )


@given(st.lists(rows(), max_size=30), st.integers(0, 10))
def test_every_run_is_counted_in_one_tenant_and_one_source(found: list[RunForecastRow], points: int) -> None:
    made = report(found, points)
    total = errors("all", found)
    for table in (made.tenants, made.sources):
        assert sum(row["count"] for row in table) == total["count"]
        assert sum(row["cut"] for row in table) == total["cut"]
    assert made.rows == len(found)
    assert len(made.points) == min(points, total["count"])
    for source in {level["source"] for level in made.calibration}:
        observed = [level["observed"] for level in made.calibration if level["source"] == source]
        assert len(observed) == len(LEVELS)
        assert observed == sorted(observed), "a higher level holds for at least as many runs"


def test_calibration_equals_the_levels_for_perfect_quantiles() -> None:
    """The run times are spread evenly over the predicted quantiles."""
    values = [SECOND_US * round(100 * level) for level in LEVELS]
    found = [
        RunForecastRow(str(n), 0, 0, "t", "u", "s", truth_us=n * SECOND_US, how="succeeded", settled_us=1,
                       levels=list(LEVELS), values_us=values)
        for n in range(1, 101)
    ]  # fmt: skip
    assert [(level["level"], level["observed"]) for level in report(found).calibration] == [(p, p) for p in LEVELS]
    assert errors("x", found)["bias"] == pytest.approx(log(50.5 / 50), abs=0.001)


def test_quantiles_of_other_levels_are_interpolated_to_the_standard_levels() -> None:
    row = RunForecastRow("a", 0, 0, "t", "u", "s", levels=[0.5, 0.9], values_us=[100, 400])
    assert [at_levels(row)[LEVELS.index(p)] for p in (0.05, 0.5, 0.7, 0.9, 0.99)] == [100, 100, 200, 400, 400]
