"""Tests for the statistics of measured series."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.analysis.grid import grid
from gpusquad.measure.analysis.stats import (
    LEVEL,
    MeanEstimate,
    asymmetries,
    corrected,
    diagonals,
    difference,
    holm,
    mean_of,
    spread,
    spread_of_interval,
)
from gpusquad.measure.analysis.summary_text import findings
from gpusquad.model.interference import ConfidenceInterval, CoRun, MeasurementSeries, MeasurementSetting
from tests.measure.sample import interval, sample

SETTING = MeasurementSetting("GPU", "1", "mps")
probabilities = st.lists(st.floats(0, 1), max_size=30)


def pair(first: str, second: str, first_samples: tuple[float, ...], second_samples: tuple[float, ...]) -> CoRun:
    return CoRun(
        (first, second),
        (1000, 1000),
        (interval(first_samples), interval(second_samples)),
        (first_samples, second_samples),
    )


def series(*runs: CoRun) -> MeasurementSeries:
    return MeasurementSeries(SETTING, 0, (), runs)


@given(probabilities)
def test_holm_never_rejects_more_than_uncorrected(ps):
    adjusted = holm(ps)
    assert all(p <= a <= 1 for p, a in zip(ps, adjusted, strict=True))
    assert sum(a < LEVEL for a in adjusted) <= sum(p < LEVEL for p in ps)


@given(probabilities)
def test_holm_rejects_at_least_what_bonferroni_does(ps):
    assert all(a <= min(1.0, p * len(ps)) + 1e-12 for p, a in zip(ps, holm(ps), strict=True))


@given(probabilities, st.randoms())
def test_holm_keeps_the_order_of_p_and_ignores_the_input_order(ps, rng):
    by_p = sorted(zip(ps, holm(ps), strict=True))
    assert [a for _, a in by_p] == sorted(a for _, a in by_p)
    mixed = ps[:]
    rng.shuffle(mixed)
    assert sorted(holm(mixed)) == pytest.approx(sorted(holm(ps)))


def test_holm_of_three_values():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_five_repeats_suffice_to_find_an_asymmetric_pair_among_many():
    """A permutation test could not, because its smallest p is 1/16."""
    clear = pair("a", "b", (0.50, 0.51, 0.49, 0.505, 0.495), (0.81, 0.79, 0.80, 0.805, 0.795))
    others = [pair(f"c{n}", f"d{n}", (0.7, 0.72, 0.69, 0.71, 0.7), (0.71, 0.69, 0.7, 0.7, 0.715)) for n in range(35)]
    found = [asymmetry for asymmetry in asymmetries(series(clear, *others)) if asymmetry.loss.is_significant]
    assert [(asymmetry.first, asymmetry.second, asymmetry.loser) for asymmetry in found] == [("a", "b", "a")]
    assert found[0].loss.mean == pytest.approx(0.3)
    assert found[0].loss.low < 0.3 < found[0].loss.high


def test_samples_are_compared_within_each_repeat():
    """The card was slower for both workloads in some repeats. This must not hide their difference."""
    drift = (0.0, -0.1, 0.05, -0.2, 0.1)
    first, second = tuple(0.5 + d for d in drift), tuple(0.53 + d + e for d, e in zip(drift, (0, 1e-3, 0, -1e-3, 0)))  # noqa: B905
    assert asymmetries(series(pair("a", "b", first, second)))[0].loss.is_significant


def test_two_equal_repeats_are_not_significant():
    same = pair("a", "b", (0.500, 0.500), (0.501, 0.501))
    assert not asymmetries(series(same))[0].loss.is_significant


def test_false_positives_are_rare():
    rng, false_positives = Random(7), 0
    for _ in range(150):
        runs = [
            pair(f"a{n}", f"b{n}", *(tuple(rng.gauss(0.6, 0.02) for _ in range(5)) for _ in range(2)))
            for n in range(10)
        ]
        false_positives += any(asymmetry.loss.is_significant for asymmetry in asymmetries(series(*runs)))
    assert false_positives / 150 < 0.12  # the level is 5 %; a rate above 12 % in 150 trials is extremely unlikely


def test_pair_measured_once_is_not_tested():
    assert asymmetries(series(pair("a", "b", (0.5,), (0.9,)))) == []
    assert findings(series(pair("a", "b", (0.5,), (0.9,)))) == []


def test_splits_and_runs_that_do_not_fit_are_not_tested():
    halves = replace(pair("a", "b", (0.5, 0.5), (0.9, 0.9)), sm_milli=(500, 500))
    assert asymmetries(series(halves, CoRun(("a", "c"), (1000, 1000)))) == []


def test_diagonal_is_compared_with_its_row():
    steady = (0.90, 0.91, 0.89, 0.905, 0.895)
    twin = pair("a", "a", (0.50, 0.51, 0.49, 0.505, 0.495), (0.5, 0.5, 0.5, 0.5, 0.5))
    found = diagonals(series(twin, pair("a", "b", steady, steady), pair("a", "c", steady, steady)))
    assert [(diagonal.workload, diagonal.others) for diagonal in found] == [("a", 2)]
    assert found[0].loss.mean == pytest.approx(0.4, abs=0.01)
    assert found[0].loss.is_significant


def test_diagonal_is_compared_when_repeat_counts_differ():
    twin = pair("a", "a", (0.50, 0.51, 0.49), (0.5, 0.5, 0.5))
    found = diagonals(series(twin, pair("a", "b", (0.9, 0.91, 0.89, 0.9), (0.9, 0.9, 0.9, 0.9))))
    assert found[0].loss.mean == pytest.approx(0.4)
    assert found[0].loss.is_significant


def test_estimate_is_recovered_from_the_interval():
    samples = (0.52, 0.5, 0.49, 0.51, 0.48)
    restored, direct = spread_of_interval(interval(samples)), spread(samples)
    assert restored is not None
    assert (restored.mean, restored.error, restored.freedom) == pytest.approx(
        (direct.mean, direct.error, direct.freedom), rel=1e-3
    )
    assert spread_of_interval(ConfidenceInterval(0.5, 0.5, 0.5, 1)) is None
    assert spread_of_interval(ConfidenceInterval(0.0, 0.0, 0.0, 5)) is None


def test_welch_is_as_elsewhere():
    """Two samples of three: t = 2 / sqrt(1/3 + 4/3), 2.941 degrees of freedom; the p is SciPy 1.17's ttest_ind."""
    found = difference(spread([4.0, 5.0, 6.0]), spread([1.0, 3.0, 5.0]))
    assert found.mean == pytest.approx(2.0)
    assert found.p == pytest.approx(0.2208808405, rel=1e-8)


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(1e-3, 0.2), st.integers(1, 9)), min_size=1, max_size=8))
def test_mean_of_estimates_has_no_larger_error_than_its_parts(parts):
    estimates = [MeanEstimate(mean, error, freedom) for mean, error, freedom in parts]
    found = mean_of(estimates)
    assert found.error <= max(estimate.error for estimate in estimates) + 1e-12
    assert (
        min(estimate.freedom for estimate in estimates) - 1e-6
        <= found.freedom
        <= sum(estimate.freedom for estimate in estimates) + 1e-6
    )


def test_grid_of_the_sample_series():
    cells = grid(sample())
    twin = cells.at("cnn", "cnn")
    assert twin is not None
    assert twin.ratio is not None
    assert twin.ratio.mean == pytest.approx(sum(twin.samples) / 5, abs=1e-4)
    full = cells.at("transformer-training", "transformer-training")
    assert full is not None
    assert (full.ratio, full.samples, full.ran_out) == (None, (), (False, True))
    assert len(corrected([asymmetry.loss for asymmetry in asymmetries(sample())])) == len(list(cells.unordered())) == 15
