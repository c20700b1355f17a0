"""Tests for start forecasts and their accuracy."""

from statistics import median

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusquad.store import forecasts
from gpusquad.store.forecasts import ForecastAccuracy, ForecastRow
from tests.store.examples import SECOND_US


def test_settle_records_the_start_in_all_open_forecasts_of_the_job(database):
    with database.write() as c:
        forecasts.add(c, ForecastRow("a", 1, 10, 20))
        forecasts.add(c, ForecastRow("a", 2, 11, 21))
        forecasts.add(c, ForecastRow("a", 2, 12, 22))
        forecasts.add(c, ForecastRow("b", 1, 10, 20))
        assert forecasts.settle(c, "a", 15) == 2
        assert forecasts.settle(c, "a", 99) == 0
        assert forecasts.of_job(c, "a") == [ForecastRow("a", 1, 10, 20, 15), ForecastRow("a", 2, 12, 22, 15)]
        assert forecasts.of_job(c, "b")[0].truth_us is None


def test_accuracy_is_empty_without_settled_forecasts(database):
    with database.write() as c:
        forecasts.add(c, ForecastRow("a", 1, 10, 20))
        assert forecasts.accuracy(c, 0) == ForecastAccuracy(0, None, None, None)


times_us = st.integers(0, 1000).map(lambda second: second * SECOND_US)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50)
@given(rows=st.lists(st.tuples(times_us, times_us, st.none() | times_us), max_size=9), since_us=times_us)
def test_accuracy_equals_a_direct_computation(database, rows, since_us):
    with database.write() as c:
        c.execute(forecasts.forecasts.delete())
        for number, (mid_us, late_us, truth_us) in enumerate(rows):
            forecasts.add(c, ForecastRow(f"job-{number}", 0, mid_us, mid_us + late_us, truth_us))
        found = forecasts.accuracy(c, since_us)
    settled = [row for row in rows if row[2] is not None and row[2] >= since_us]
    assert found.count == len(settled)
    if settled:
        assert found.within_ratio == sum(actual <= mid + late for mid, late, actual in settled) / len(settled)
        assert found.median_error_s == pytest.approx(
            median(abs(actual - mid) for mid, _, actual in settled) / SECOND_US
        )
        assert found.median_late_s == pytest.approx(median(actual - mid for mid, _, actual in settled) / SECOND_US)
