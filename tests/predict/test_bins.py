"""Bins of run times, and what can be read from a distribution over them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.prediction import LEVELS, Quantiles, certain
from gpusquad.predict._bins import COUNT, MIDDLES_US, PER_OCTAVE, bin_of, quantiles, shares, spread
from tests.predict.past_runs import S, is_sound

hazards = st.lists(st.floats(1e-4, 1 - 1e-4), min_size=COUNT, max_size=COUNT).map(np.array)


def all_in(bin_: int) -> np.ndarray:
    part = np.zeros(COUNT)
    part[bin_] = 1.0
    return part


def test_bins_grow_by_a_factor():
    assert [bin_of(us * S) for us in (0, 1, 2, 4, 8)] == [0, 0, PER_OCTAVE, 2 * PER_OCTAVE, 3 * PER_OCTAVE]
    assert bin_of(-5) == 0
    assert bin_of(10**400) == COUNT - 1


@given(st.integers(0, 1 << 70), st.integers(0, 1 << 70))
def test_longer_is_never_in_a_lower_bin(one: int, other: int):
    low, high = sorted((one, other))
    assert 0 <= bin_of(low) <= bin_of(high) < COUNT


@pytest.mark.parametrize("bin_", [0, 1, 40, COUNT - 1])
def test_the_middle_of_a_bin_is_in_it(bin_: int):
    assert bin_of(round(MIDDLES_US[bin_])) == bin_


def test_shares_by_hand():
    """Half of all ends in the first bin, half of the rest in the second, whoever is left in the third at the latest."""
    part = shares(np.full(COUNT, 0.5), last=2)
    assert part[:4].tolist() == [0.5, 0.25, 0.25, 0.0]


@given(hazards, st.none() | st.integers(0, COUNT - 1))
def test_shares_are_all_there_is(found: np.ndarray, last: int | None):
    before = found.copy()
    part = shares(found, last)
    assert part.sum() == pytest.approx(1.0)
    assert (part >= 0).all()
    assert last is None or not part[last + 1 :].any()
    assert (found == before).all()


@given(hazards, st.none() | st.integers(0, 1 << 70))
def test_quantiles_are_sound_whatever_the_distribution(found: np.ndarray, max_us: int | None):
    result = quantiles(shares(found), "x", 0.5, max_us)
    is_sound(result)
    assert result.levels == (LEVELS if max_us is None else (*LEVELS, 1.0))
    assert max_us is None or result.values[-1] <= max(1, max_us)


def test_one_bin_gives_values_within_it():
    result = quantiles(all_in(bin_of(100 * S)), "x", 0.5)
    assert all(bin_of(value) == bin_of(100 * S) for value in result.values)


def test_levels_asked_for_are_looked_up_in_place_of_the_nominal():
    part = shares(np.full(COUNT, 0.1))
    plain, raised = quantiles(part, "x", 0.0), quantiles(part, "x", 0.0, asked=np.full(len(LEVELS), 0.9))
    assert set(raised.values) == {plain.at(0.9)}


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=len(LEVELS)))
def test_any_quantiles_can_be_spread(values: list[int]):
    part = spread(Quantiles(LEVELS[: len(values)], tuple(sorted(values)), "x"))
    assert part.sum() == pytest.approx(1.0)
    assert (part > 0).all()


def test_what_is_spread_comes_back_nearly():
    told = Quantiles(LEVELS, tuple(round(60 * S * 1.6**step) for step in range(len(LEVELS))), "x")
    back = quantiles(spread(told), "x", 0.0)
    for level in (0.1, 0.5, 0.9):
        assert back.at(level) == pytest.approx(told.at(level), rel=0.35)


def test_a_single_number_is_spread_around_itself():
    assert quantiles(spread(certain(3600 * S, "user")), "x", 0.0).at(0.5) == pytest.approx(3600 * S, rel=0.3)
