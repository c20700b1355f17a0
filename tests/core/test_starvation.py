"""Who would be late if everybody waited until due goes first, before anybody is late."""

from __future__ import annotations

import pytest
from hypothesis import given

from gpusquad.core.driver import Driver
from gpusquad.core.ports import RunTimePredicted
from gpusquad.core.state.queue import rank_of
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.views import RunTimePrediction
from tests.core.test_patience import HOUR, MINUTE, a_job, driver_of, factors, hard, spread, submit, wrong
from tests.strategies import Load, examples

ORDER = "merit:max_wait_s=14400"


def rush(wide: int, order: str = ORDER) -> Driver:
    """Four cards, taken for an hour; then so many gangs for all of them, an hour each; then a short job for one."""
    driver = driver_of("easy", "1x4", order)
    submit(driver, a_job("runs", 4), spread(HOUR))
    driver.decide(0)
    for n in range(wide):
        submit(driver, a_job(f"wide{n}", 4, at_us=n + 1), spread(HOUR, merit=1e-6))
    submit(driver, a_job("short", 1, at_us=MINUTE), spread(MINUTE, merit=1e-3))
    driver.decide(MINUTE)
    return driver


def line(driver: Driver) -> list[str]:
    return [waiting.job.id for waiting in driver.state.queue]


def test_where_there_is_time_for_all_the_most_merit_goes_first():
    assert line(rush(3)) == ["short", "wide0", "wide1", "wide2"]


def test_after_a_rush_those_go_first_who_would_have_to_wait_too_long():
    """The fifth of them could start in 5.3 hours at the pace of a busy cluster, and is due in four, as all are."""
    driver = rush(5)
    assert line(driver) == ["wide0", "wide1", "wide2", "wide3", "wide4", "short"]
    assert driver.state.due_until_us == driver.state.queue["short"].due_us, "would be late as well"


def test_when_the_rush_is_over_merit_counts_again():
    driver = rush(5)
    for name in ("wide0", "wide1", "wide2"):
        driver.state.withdraw(name)
    driver.decide(2 * MINUTE)
    assert line(driver) == ["short", "wide3", "wide4"]


def test_who_runs_long_may_wait_three_times_as_long():
    driver = driver_of("easy", "1x4", ORDER)
    submit(driver, a_job("runs", 4), spread(HOUR))
    driver.decide(0)
    for name, hours in (("short", 1), ("long", 50)):
        submit(driver, a_job(name, 4, at_us=1), spread(hours * HOUR))
    driver.decide(MINUTE)
    due_us = {waiting.job.id: waiting.due_us for waiting in driver.state.queue}
    assert due_us == {"short": 4 * HOUR + 1, "long": 150 * HOUR + 1}


def test_who_is_foretold_a_shorter_run_is_due_sooner():
    driver = driver_of("easy", "1x4", ORDER)
    submit(driver, a_job("runs", 4), spread(HOUR))
    driver.decide(0)
    submit(driver, a_job("long", 4, at_us=1), spread(50 * HOUR))
    driver.decide(MINUTE)
    driver.apply(MINUTE, RunTimePredicted("long", spread(HOUR)))
    driver.decide(MINUTE)
    assert driver.state.queue["long"].due_us == 4 * HOUR + 1


def test_gangs_wider_than_half_the_cluster_take_all_of_it():
    driver = driver_of("easy", "1x4", ORDER)
    takes = {}
    for gpus in (1, 2, 3, 4):
        submit(driver, a_job(f"w{gpus}", gpus), spread(HOUR))
        takes[gpus] = driver.state.queue[f"w{gpus}"].cluster_time_us(4, 100 * HOUR) / HOUR
    assert takes == {1: 0.25, 2: 0.5, 3: 1.0, 4: 1.0}


def test_what_is_ahead_is_counted_by_the_mean_where_it_is_known():
    job = a_job("a", 4)
    driver = driver_of("easy", "1x4", ORDER)
    submit(driver, job, RunTimePrediction(HOUR, 2 * HOUR, "history", mean_us=3 * HOUR))
    assert driver.state.queue["a"].cluster_time_us(4, 100 * HOUR) == 3 * HOUR


def test_a_job_of_which_nothing_is_known_makes_nobody_late():
    driver = rush(2)
    driver.state.withdraw("wide0")
    submit(driver, a_job("unknown", 1), UNKNOWN)
    driver.decide(2 * MINUTE)
    assert line(driver) == ["short", "wide1", "unknown"]


@pytest.mark.parametrize("order", ["merit:max_wait_s=0.01,wide=0.5", "merit:max_wait_s=0.1"])
@examples(25)
@given(load=hard, factors=factors)
def test_everybody_stands_where_the_order_would_put_it_now(order: str, load: Load, factors):
    """They are ranked anew only when somebody becomes due, or no longer is: nothing else may change a rank."""

    def as_ranked_now(state: SchedulerState, now_us: int) -> None:
        ranks = [rank_of(waiting, state.key) for waiting in state.queue]
        assert ranks == sorted(ranks)
        assert ranks == [waiting.rank for waiting in state.queue]
        for waiting in state.queue:
            assert waiting.due_us in (None, state.policies.order.due_us(waiting.job, state))

    load.run("easy:backfill=merit", order, forecast=wrong(factors), on_cycle=as_ranked_now)
