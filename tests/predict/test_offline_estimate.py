"""Tests for the offline estimates in a job file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.offline_estimate import USUAL_FACTOR, expected_peak, expected_run, spread
from tests.predict.similar_jobs import GIB, S, job, offline_estimate


def test_no_prediction_without_an_offline_estimate():
    assert expected_run(job()) is None
    assert expected_peak(job()) is None
    assert expected_run(job(expected=offline_estimate(memory_bytes=GIB))) is None


def test_given_median_and_high_quantile_are_used():
    found = expected_run(job(expected=offline_estimate(run_us=100 * S, run_high_us=300 * S)))
    assert found is not None
    assert (found.at(0.5), found.source) == (100 * S, "analytical")
    assert found.at(0.9) == pytest.approx(300 * S, rel=1e-3)


def test_median_without_high_quantile_gets_the_usual_spread():
    found = expected_run(job(expected=offline_estimate(run_us=100 * S)))
    assert found is not None
    assert found.at(0.9) == pytest.approx(USUAL_FACTOR * 100 * S, rel=1e-3)


def test_run_time_is_that_for_the_requested_gpus():
    expected = offline_estimate(by_gpus={1: 100, 2: 60})
    assert expected_run(job(gpus=2, expected=expected)).at(0.5) == 60 * S  # type: ignore[union-attr]
    assert expected_run(job(gpus=4, expected=expected)) is None


@given(st.integers(0, 2**51), st.integers(0, 2**51))
def test_spread_has_ascending_values_around_the_median(mid, high):
    found = spread(mid, high, "x")
    assert list(found.values) == sorted(found.values)
    assert found.at(0.5) == max(1, mid)
