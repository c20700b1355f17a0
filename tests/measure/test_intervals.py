"""Tests for the confidence interval of a mean."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.intervals import interval


def test_interval_of_three_samples() -> None:
    found = interval([1.0, 2.0, 3.0])
    half = 4.3027 / math.sqrt(3)
    assert (found.mean, found.repeats) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half), abs=1e-4)


def test_interval_of_one_sample_has_no_width() -> None:
    found = interval([0.7])
    assert (found.low, found.mean, found.high, found.repeats) == (0.7, 0.7, 0.7, 1)


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=40))
def test_interval_contains_the_mean_and_scales(samples: list[float]) -> None:
    found, doubled = interval(samples), interval([2 * sample for sample in samples])
    assert found.low <= found.mean <= found.high
    assert doubled.high - doubled.low == pytest.approx(2 * (found.high - found.low), abs=1e-9)
