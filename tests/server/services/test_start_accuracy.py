"""Tests of the accuracy of start forecasts."""

from __future__ import annotations

import pytest

from gpusquad.server.services.prediction.start_accuracy import wait_errors
from gpusquad.store import jobs, start_forecasts
from gpusquad.store.database import Database
from gpusquad.store.start_forecasts import StartForecastRow
from tests.store.examples import job

MIN_US = 60_000_000


def forecast(mid_min: float, high_min: float, start_min: float | None, job_id: str = "a", tenant: str = "t"):
    start_us = None if start_min is None else round(start_min * MIN_US)
    return StartForecastRow(job_id, tenant, 0, round(mid_min * MIN_US), round(high_min * MIN_US), start_us)


def test_nothing_is_said_of_jobs_that_have_not_started():
    assert wait_errors("t", [forecast(1, 2, None)])["count"] == 0
    assert wait_errors("t", [])["within_10min"] is None


@pytest.mark.parametrize(
    ("mid", "high", "start", "near", "factor", "p50", "p90"),
    [
        (30, 60, 30, 1, 1, 1, 1),
        (30, 60, 40, 1, 1, 0, 1),
        (30, 60, 41, 0, 1, 0, 1),
        (30, 60, 61, 0, 0, 0, 0),
        (30, 60, 14, 0, 0, 1, 1),
        (0, 0, 0.5, 1, 1, 0, 0),  # less than a minute: twice a second does not matter
        (0, 0, 9, 1, 0, 0, 0),
    ],
)
def test_one_forecast_is_judged_by_distance_by_factor_and_by_its_quantiles(mid, high, start, near, factor, p50, p90):
    found = wait_errors("t", [forecast(mid, high, start)])
    shown = [found[name] for name in ("within_10min", "within_factor_2", "within_p50", "within_p90")]
    assert shown == [near, factor, p50, p90]
    assert found["median_error_s"] == 60 * abs(start - mid)


def test_p90_is_judged_only_where_it_was_known():
    unknown = StartForecastRow("b", "t", 0, MIN_US, None, 9 * MIN_US)
    assert wait_errors("t", [unknown])["within_p90"] is None
    assert wait_errors("t", [unknown, forecast(1, 20, 9)])["within_p90"] == 1.0


def test_only_the_first_forecast_and_the_first_start_of_a_job_are_kept(database: Database) -> None:
    with database.write() as c:
        start_forecasts.add(c, [forecast(10, 20, None)])
        start_forecasts.add(c, [forecast(50, 60, None), forecast(1, 2, None, "b", "other")])
        start_forecasts.settle(c, "a", 15 * MIN_US)
        start_forecasts.settle(c, "a", 99 * MIN_US)
    with database.read() as c:
        assert start_forecasts.settled(c, 0, None, 10) == [forecast(10, 20, 15)]
        assert start_forecasts.settled(c, 16 * MIN_US, None, 10) == []
        assert start_forecasts.settled(c, 0, "other", 10) == []


def test_latest_of_each_tenant_are_read_with_their_users(database: Database) -> None:
    owners = {"a": "big", "b": "big", "c": "big", "d": "small"}
    with database.write() as c:
        jobs.insert(c, [job(0, id="c", user="ada"), job(1, id="e", user="bob"), job(2, id="f", ended_us=3)])
        start_forecasts.add(c, [forecast(1, 2, None, name, tenant) for name, tenant in owners.items()])
        start_forecasts.add(c, [forecast(1, 2, None, name, "big") for name in "efg"])
        for minute, name in enumerate("abcd"):
            start_forecasts.settle(c, name, minute * MIN_US)
    with database.read() as c:
        found = start_forecasts.latest(c, 2)
    settled = [(row.job_id, user) for row, user in found if row.started_us is not None]
    assert settled == [("b", ""), ("c", "ada"), ("d", "")]
    still_open = [(row.job_id, user) for row, user in found if row.started_us is None]
    assert still_open == [("e", "bob")], "jobs that have ended or are unknown never start"


def test_withdrawn_forecast_makes_room_for_another(database: Database) -> None:
    with database.write() as c:
        start_forecasts.add(c, [forecast(10, 20, None), forecast(10, 20, None, "b")])
        start_forecasts.settle(c, "b", 15 * MIN_US)
        start_forecasts.withdraw(c, ["a", "b", "unknown"])
        start_forecasts.add(c, [forecast(50, 60, None)])
        start_forecasts.settle(c, "a", 70 * MIN_US)
        settled = {row.job_id: row.mid_us for row in start_forecasts.settled(c, 0, None, 10)}
    assert settled == {"a": 50 * MIN_US, "b": 10 * MIN_US}


def test_old_forecasts_are_deleted(database: Database) -> None:
    with database.write() as c:
        start_forecasts.add(c, [forecast(10, 20, None)])
        start_forecasts.settle(c, "a", 15 * MIN_US)
        assert start_forecasts.trim(c, 15 * MIN_US, 10) == 0
        assert start_forecasts.trim(c, 16 * MIN_US, 10) == 1
