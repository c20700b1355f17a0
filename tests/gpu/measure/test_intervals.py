"""The interval of a mean."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.gpu.measure.intervals import interval, t_quantile


def test_by_hand() -> None:
    found = interval([1.0, 2.0, 3.0])
    half = 4.3027 / math.sqrt(3)
    assert (found.mean, found.repeats) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - half, 2 + half))


def test_one_sample_has_no_spread() -> None:
    found = interval([0.7])
    assert (found.low, found.mean, found.high, found.repeats) == (0.7, 0.7, 0.7, 1)


@pytest.mark.parametrize(("freedom", "known"), [(1, 12.7062), (4, 2.7764), (30, 2.0423), (60, 2.0003), (120, 1.9799)])
def test_quantiles(freedom: int, known: float) -> None:
    assert t_quantile(freedom) == pytest.approx(known, abs=2e-4)


def test_quantiles_fall_beyond_the_table_too() -> None:
    values = [t_quantile(freedom) for freedom in range(1, 200)]
    assert values == sorted(values, reverse=True)


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=40))
def test_holds_its_mean_and_scales(samples: list[float]) -> None:
    found, doubled = interval(samples), interval([2 * one for one in samples])
    assert found.low <= found.mean <= found.high
    assert doubled.high - doubled.low == pytest.approx(2 * (found.high - found.low), abs=1e-9)
