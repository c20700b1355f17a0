"""What a job file brings with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.offline_estimate import USUAL_FACTOR, expected_peak, expected_run, spread
from tests.predict.similar_jobs import GIB, S, expecting, job


def test_nothing_expected():
    assert expected_run(job()) is None
    assert expected_peak(job()) is None
    assert expected_run(job(expected=expecting(memory_bytes=GIB))) is None


def test_a_middle_and_a_high_end():
    found = expected_run(job(expected=expecting(run_us=100 * S, run_high_us=300 * S)))
    assert found is not None
    assert (found.at(0.5), found.source) == (100 * S, "analytical")
    assert found.at(0.9) == pytest.approx(300 * S, rel=1e-3)


def test_a_middle_alone_gets_the_usual_spread():
    found = expected_run(job(expected=expecting(run_us=100 * S)))
    assert found is not None
    assert found.at(0.9) == pytest.approx(USUAL_FACTOR * 100 * S, rel=1e-3)


def test_the_time_for_as_many_gpus_as_it_asks_for():
    expected = expecting(by_gpus={1: 100, 2: 60})
    assert expected_run(job(gpus=2, expected=expected)).at(0.5) == 60 * S  # type: ignore[union-attr]
    assert expected_run(job(gpus=4, expected=expected)) is None


@given(st.integers(0, 2**51), st.integers(0, 2**51))
def test_a_spread_is_a_distribution(mid, high):
    found = spread(mid, high, "x")
    assert list(found.values) == sorted(found.values)
    assert found.at(0.5) == max(1, mid)
