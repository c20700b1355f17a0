"""Tests of ratios of percentiles, their intervals and the noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.card.stats import mean, noise, percentile, ratio

BLOCK = st.lists(st.floats(1, 1000), min_size=1, max_size=20)


@given(blocks=st.lists(BLOCK, min_size=2, max_size=6), factor=st.floats(0.5, 3))
def test_constant_factor_has_an_interval_of_width_zero(blocks: list[list[float]], factor: float) -> None:
    """The ratio is paired by blocks, so differences between blocks do not matter."""
    slower = [[factor * value for value in block] for block in blocks]
    found = ratio(slower, blocks, percentile(99), draws=50)
    assert (found.value, found.low, found.high) == pytest.approx((factor,) * 3)


def test_interval_covers_the_actual_ratio_at_its_level() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(60):
        base = [rng.lognormal(0, 0.3, 200) * level for level in rng.lognormal(0, 0.2, 12)]
        ours = [block[rng.permutation(200)] * 1.2 * rng.lognormal(0, 0.02) for block in base]
        found = ratio([list(values) for values in ours], [list(values) for values in base], percentile(99), draws=400)
        covered += found.low <= 1.2 <= found.high
    assert covered >= 45


def test_one_block_has_no_interval() -> None:
    found = ratio([[2.0, 2.0]], [[1.0, 1.0]], mean)
    assert found.value == 2.0
    assert np.isnan(found.high)
    assert not found.is_sure


def test_blocks_without_requests_are_left_out() -> None:
    assert ratio([[], [2.0]], [[1.0], [1.0]], mean).blocks == 1
    assert ratio([], [], mean).blocks == 0


def test_ratio_needs_as_many_base_blocks() -> None:
    with pytest.raises(ValueError, match="as many"):
        ratio([[1.0]], [], mean)


def test_noise_excludes_differences_of_conditions_and_rounds() -> None:
    rounds, speeds = [1.0, 1.1, 0.8], [2.0, 3.0, 7.0]
    assert noise([[speed * level for level in rounds] for speed in speeds]) == pytest.approx(0)
    residuals_squared, degrees_of_freedom, t_quantile = 4 * 0.02**2, 3, 3.18
    found = noise([[1.0, np.exp(0.04)], [1.0, np.exp(-0.04)], [1.0, 1.0], [1.0, 1.0]])
    assert found == pytest.approx(t_quantile * np.sqrt(residuals_squared / degrees_of_freedom), rel=0.05)


def test_equal_conditions_differ_by_less_than_the_noise_at_its_level() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(300):
        found = np.exp(rng.normal(0, 0.01, (17, 2)) + rng.normal(0, 0.05, (1, 2)))
        covered += abs(found[0].mean() / found[1].mean() - 1) <= noise([list(condition) for condition in found])
    assert 0.92 * 300 <= covered <= 0.98 * 300


@pytest.mark.parametrize("found", [[], [[1.0], [1.1], [1.2], [1.3]], [[1.0, 1.1], [1.0, 1.2]]])
def test_noise_is_unknown_for_one_round_or_two_conditions(found: list[list[float]]) -> None:
    assert np.isnan(noise(found))
