"""Tests for the bins of run times and the quantiles of a distribution over them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.prediction import LEVELS, Quantiles, certain
from gpusquad.predict._bins import COUNT, MIDDLES_US, PER_OCTAVE, bin_of, quantiles, shares, spread
from tests.predict.past_runs import S, assert_valid

hazards = st.lists(st.floats(1e-4, 1 - 1e-4), min_size=COUNT, max_size=COUNT).map(np.array)


def distribution_in(bin_: int) -> np.ndarray:
    part = np.zeros(COUNT)
    part[bin_] = 1.0
    return part


def test_bin_widths_grow_by_a_factor():
    assert [bin_of(us * S) for us in (0, 1, 2, 4, 8)] == [0, 0, PER_OCTAVE, 2 * PER_OCTAVE, 3 * PER_OCTAVE]
    assert bin_of(-5) == 0
    assert bin_of(10**400) == COUNT - 1


@given(st.integers(0, 1 << 70), st.integers(0, 1 << 70))
def test_longer_time_is_never_in_a_lower_bin(first: int, second: int):
    low, high = sorted((first, second))
    assert 0 <= bin_of(low) <= bin_of(high) < COUNT


@pytest.mark.parametrize("bin_", [0, 1, 40, COUNT - 1])
def test_middle_of_a_bin_is_in_that_bin(bin_: int):
    assert bin_of(round(MIDDLES_US[bin_])) == bin_


def test_shares_of_constant_hazards():
    """Half of all runs end in the first bin, half of the rest in the second, and all others in the third."""
    part = shares(np.full(COUNT, 0.5), last=2)
    assert part[:4].tolist() == [0.5, 0.25, 0.25, 0.0]


@given(hazards, st.none() | st.integers(0, COUNT - 1))
def test_shares_sum_to_one(values: np.ndarray, last: int | None):
    before = values.copy()
    part = shares(values, last)
    assert part.sum() == pytest.approx(1.0)
    assert (part >= 0).all()
    assert last is None or not part[last + 1 :].any()
    assert (values == before).all()


@given(hazards, st.none() | st.integers(0, 1 << 70))
def test_quantiles_are_valid_for_any_distribution(values: np.ndarray, max_us: int | None):
    result = quantiles(shares(values), "x", 0.5, max_us)
    assert_valid(result)
    assert result.levels == (LEVELS if max_us is None else (*LEVELS, 1.0))
    assert max_us is None or result.values[-1] <= max(1, max_us)


def test_distribution_in_one_bin_has_quantiles_in_that_bin():
    result = quantiles(distribution_in(bin_of(100 * S)), "x", 0.5)
    assert all(bin_of(value) == bin_of(100 * S) for value in result.values)


def test_requested_levels_replace_the_nominal_levels():
    part = shares(np.full(COUNT, 0.1))
    plain, raised = quantiles(part, "x", 0.0), quantiles(part, "x", 0.0, asked=np.full(len(LEVELS), 0.9))
    assert set(raised.values) == {plain.at(0.9)}


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=len(LEVELS)))
def test_spread_of_any_quantiles_is_a_distribution(values: list[int]):
    part = spread(Quantiles(LEVELS[: len(values)], tuple(sorted(values)), "x"))
    assert part.sum() == pytest.approx(1.0)
    assert (part > 0).all()


def test_spread_quantiles_are_approximately_recovered():
    original = Quantiles(LEVELS, tuple(round(60 * S * 1.6**step) for step in range(len(LEVELS))), "x")
    recovered = quantiles(spread(original), "x", 0.0)
    for level in (0.1, 0.5, 0.9):
        assert recovered.at(level) == pytest.approx(original.at(level), rel=0.35)


def test_spread_of_a_single_number_has_it_as_median():
    assert quantiles(spread(certain(3600 * S, "user")), "x", 0.0).at(0.5) == pytest.approx(3600 * S, rel=0.3)
