"""Ratios of percentiles, and how sure they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.card.stats import mean, noise, percentile, ratio

BLOCK = st.lists(st.floats(1, 1000), min_size=1, max_size=20)


@given(blocks=st.lists(BLOCK, min_size=2, max_size=6), factor=st.floats(0.5, 3))
def test_all_of_it_slower_by_a_factor_is_that_factor_for_sure(blocks: list[list[float]], factor: float) -> None:
    """Paired by blocks: however much blocks differ, both conditions met the same ones."""
    slower = [[factor * value for value in block] for block in blocks]
    found = ratio(slower, blocks, percentile(99), draws=50)
    assert (found.value, found.low, found.high) == pytest.approx((factor,) * 3)


def test_holds_the_truth_about_as_often_as_it_says() -> None:
    dice = np.random.default_rng(7)
    held = 0
    for _ in range(60):
        base = [dice.lognormal(0, 0.3, 200) * level for level in dice.lognormal(0, 0.2, 12)]
        ours = [block[dice.permutation(200)] * 1.2 * dice.lognormal(0, 0.02) for block in base]
        found = ratio([list(one) for one in ours], [list(one) for one in base], percentile(99), draws=400)
        held += found.low <= 1.2 <= found.high
    assert held >= 45


def test_one_block_has_no_interval() -> None:
    found = ratio([[2.0, 2.0]], [[1.0, 1.0]], mean)
    assert found.value == 2.0
    assert np.isnan(found.high)
    assert not found.is_sure


def test_blocks_without_requests_are_left_out() -> None:
    assert ratio([[], [2.0]], [[1.0], [1.0]], mean).blocks == 1
    assert ratio([], [], mean).blocks == 0


def test_blocks_must_belong_together() -> None:
    with pytest.raises(ValueError, match="as many"):
        ratio([[1.0]], [], mean)


def test_noise_is_what_differs_beside_conditions_and_rounds() -> None:
    rounds, speeds = [1.0, 1.1, 0.8], [2.0, 3.0, 7.0]
    assert noise([[speed * level for level in rounds] for speed in speeds]) == pytest.approx(0)
    rests_squared, free, students = 4 * 0.02**2, 3, 3.18
    found = noise([[1.0, np.exp(0.04)], [1.0, np.exp(-0.04)], [1.0, 1.0], [1.0, 1.0]])
    assert found == pytest.approx(students * np.sqrt(rests_squared / free), rel=0.05)


def test_two_conditions_alike_differ_by_less_than_the_noise_about_as_often_as_it_says() -> None:
    dice = np.random.default_rng(3)
    held = 0
    for _ in range(300):
        found = np.exp(dice.normal(0, 0.01, (17, 2)) + dice.normal(0, 0.05, (1, 2)))
        held += abs(found[0].mean() / found[1].mean() - 1) <= noise([list(one) for one in found])
    assert 0.92 * 300 <= held <= 0.98 * 300


@pytest.mark.parametrize("found", [[], [[1.0], [1.1], [1.2], [1.3]], [[1.0, 1.1], [1.0, 1.2]]])
def test_of_one_round_or_two_conditions_noise_is_not_known(found: list[list[float]]) -> None:
    assert np.isnan(noise(found))
