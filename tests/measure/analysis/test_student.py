"""Tests for Student's t distribution against tables and closed forms."""

from math import atan, pi, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.measure.analysis.student import incomplete_beta, quantile, two_sided_p

TABLE = [
    # Two-sided values from textbook tables: degrees of freedom, level, t.
    (1, 0.95, 12.706), (2, 0.95, 4.303), (4, 0.95, 2.776), (10, 0.95, 2.228), (30, 0.95, 2.042), (120, 0.95, 1.980),
    (1, 0.99, 63.657), (4, 0.99, 4.604), (10, 0.99, 3.169), (4, 0.90, 2.132), (20, 0.999, 3.850),
]  # fmt: skip


@pytest.mark.parametrize(("freedom", "level", "t"), TABLE)
def test_quantiles_match_the_tables(freedom, level, t):
    assert quantile(freedom, level) == pytest.approx(t, abs=6e-4)
    assert two_sided_p(t, freedom) == pytest.approx(1 - level, rel=2e-3)


@given(st.floats(1e-3, 1e4))
def test_p_matches_the_closed_forms_for_one_and_two_degrees_of_freedom(t):
    assert two_sided_p(t, 1) == pytest.approx(1 - 2 / pi * atan(t), rel=1e-6, abs=1e-12)
    assert two_sided_p(t, 2) == pytest.approx(1 - t / sqrt(2 + t * t), rel=1e-6, abs=1e-12)


@given(st.floats(0.1, 50), st.floats(0.1, 50), st.floats(0.001, 0.999))
def test_incomplete_beta_function_is_symmetric(a, b, x):
    assert incomplete_beta(a, b, x) + incomplete_beta(b, a, 1 - x) == pytest.approx(1.0, abs=1e-9)


@given(st.floats(0.5, 500), st.floats(0, 100), st.floats(0, 100))
def test_p_decreases_with_distance(freedom, first, second):
    near, far = sorted((first, second))
    assert 0.0 <= two_sided_p(far, freedom) <= two_sided_p(near, freedom) <= 1.0


def test_limit_values_of_p_and_incomplete_beta():
    assert two_sided_p(0.0, 4) == 1.0
    assert two_sided_p(float("inf"), 4) == 0.0
    assert two_sided_p(1e200, 4) == 0.0
    assert incomplete_beta(2, 3, 0.0) == 0.0
    assert incomplete_beta(2, 3, 1.0) == 1.0
