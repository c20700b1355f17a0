"""Starvation guard: jobs that would wait longer than allowed go first before they are late."""

from __future__ import annotations

import pytest
from hypothesis import given

from gpusquad.core.driver import Driver
from gpusquad.core.ports import RunTimePredicted
from gpusquad.core.state.queue import rank_of
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.views import RunTimePrediction
from tests.core.test_caution import (
    HOUR,
    MINUTE,
    driver_of,
    factors,
    make_job,
    mixed_loads,
    prediction_with_spread,
    submit,
    wrong_predictions,
)
from tests.strategies import Load, examples

ORDER = "merit:max_wait_s=14400"


def driver_after_rush(wide_gangs: int, order: str = ORDER) -> Driver:
    """Four cards, busy for an hour; pending ``wide_gangs`` of four cards and an hour each, and a short one-card job."""
    driver = driver_of("easy", "1x4", order)
    submit(driver, make_job("runs", 4), prediction_with_spread(HOUR))
    driver.decide(0)
    for n in range(wide_gangs):
        submit(driver, make_job(f"wide{n}", 4, at_us=n + 1), prediction_with_spread(HOUR, merit=1e-6))
    submit(driver, make_job("short", 1, at_us=MINUTE), prediction_with_spread(MINUTE, merit=1e-3))
    driver.decide(MINUTE)
    return driver


def queue_order(driver: Driver) -> list[str]:
    return [waiting.job.id for waiting in driver.state.queue]


def test_order_is_by_merit_when_no_job_would_be_late():
    assert queue_order(driver_after_rush(3)) == ["short", "wide0", "wide1", "wide2"]


def test_jobs_that_would_be_late_go_first_after_a_rush():
    """The fifth gang could start in 5.3 hours on a busy cluster, but all gangs are due in four hours."""
    driver = driver_after_rush(5)
    assert queue_order(driver) == ["wide0", "wide1", "wide2", "wide3", "wide4", "short"]
    assert driver.state.due_until_us == driver.state.queue["short"].due_us, "the short job would be late as well"


def test_order_is_by_merit_again_after_the_rush():
    driver = driver_after_rush(5)
    for name in ("wide0", "wide1", "wide2"):
        driver.state.withdraw(name)
    driver.decide(2 * MINUTE)
    assert queue_order(driver) == ["short", "wide3", "wide4"]


def test_long_job_is_due_after_three_times_its_run_time():
    driver = driver_of("easy", "1x4", ORDER)
    submit(driver, make_job("runs", 4), prediction_with_spread(HOUR))
    driver.decide(0)
    for name, hours in (("short", 1), ("long", 50)):
        submit(driver, make_job(name, 4, at_us=1), prediction_with_spread(hours * HOUR))
    driver.decide(MINUTE)
    due_us = {waiting.job.id: waiting.due_us for waiting in driver.state.queue}
    assert due_us == {"short": 4 * HOUR + 1, "long": 150 * HOUR + 1}


def test_job_with_a_new_shorter_prediction_is_due_sooner():
    driver = driver_of("easy", "1x4", ORDER)
    submit(driver, make_job("runs", 4), prediction_with_spread(HOUR))
    driver.decide(0)
    submit(driver, make_job("long", 4, at_us=1), prediction_with_spread(50 * HOUR))
    driver.decide(MINUTE)
    driver.apply(MINUTE, RunTimePredicted("long", prediction_with_spread(HOUR)))
    driver.decide(MINUTE)
    assert driver.state.queue["long"].due_us == 4 * HOUR + 1


def test_gang_wider_than_half_the_cluster_counts_as_the_whole_cluster():
    driver = driver_of("easy", "1x4", ORDER)
    cluster_hours = {}
    for gpus in (1, 2, 3, 4):
        submit(driver, make_job(f"w{gpus}", gpus), prediction_with_spread(HOUR))
        cluster_hours[gpus] = driver.state.queue[f"w{gpus}"].cluster_time_us(4, 100 * HOUR) / HOUR
    assert cluster_hours == {1: 0.25, 2: 0.5, 3: 1.0, 4: 1.0}


def test_cluster_time_uses_the_mean_run_time_when_known():
    job = make_job("a", 4)
    driver = driver_of("easy", "1x4", ORDER)
    submit(driver, job, RunTimePrediction(HOUR, 2 * HOUR, "history", mean_us=3 * HOUR))
    assert driver.state.queue["a"].cluster_time_us(4, 100 * HOUR) == 3 * HOUR


def test_job_of_unknown_run_time_makes_no_job_late():
    driver = driver_after_rush(2)
    driver.state.withdraw("wide0")
    submit(driver, make_job("unknown", 1), UNKNOWN)
    driver.decide(2 * MINUTE)
    assert queue_order(driver) == ["short", "wide1", "unknown"]


@pytest.mark.parametrize("order", ["merit:max_wait_s=0.01,wide=0.5", "merit:max_wait_s=0.1"])
@examples(25)
@given(load=mixed_loads, factors=factors)
def test_ranks_always_match_the_order_policy(order: str, load: Load, factors):
    """Jobs are ranked again only when one becomes due or is no longer due; nothing else may change a rank."""

    def check_ranks(state: SchedulerState, now_us: int) -> None:
        ranks = [rank_of(waiting, state.key) for waiting in state.queue]
        assert ranks == sorted(ranks)
        assert ranks == [waiting.rank for waiting in state.queue]
        for waiting in state.queue:
            assert waiting.due_us in (None, state.policies.order.due_us(waiting.job, state))

    load.run("easy:backfill=merit", order, forecast=wrong_predictions(factors), on_cycle=check_ranks)
