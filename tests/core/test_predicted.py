"""Ends that are expected at another time than foretold: plans follow, the books hold, a breath changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.driver import Driver
from gpusquad.core.ports import EndPredicted, GangStopping, JobSubmitted, RunTimePredicted
from gpusquad.core.state import live_updates
from gpusquad.core.state.live_updates import SLACK_RATIO, SLACK_US
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.simulator import user
from tests.audit import audit
from tests.strategies import TICK_US, Load, examples, loads

HOUR_US = 3600 * US_PER_S
PATIENT = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"


def a_job(name: str, gpus: int = 1, **rest) -> Job:
    return Job(name, (Role("task", 1, Request(gpus=gpus)),), **rest)


def one_runs_one_waits(**of_first) -> Driver:
    """``first`` has both cards and is expected to end after an hour; ``next`` is promised that instant."""
    driver = Driver(SchedulerState(grid("1x2"), make_policies()), lambda now_us, decisions: None)
    for job in (a_job("first", 2, **of_first), a_job("next", 2)):
        driver.apply(0, JobSubmitted(job, RunTimePrediction(HOUR_US, 2 * HOUR_US, "user")))
    driver.decide(0)
    assert promised(driver) == HOUR_US
    return driver


def promised(driver: Driver) -> int:
    return driver.state.timeline.reservations["next"].start_us


def foresee(driver: Driver, end_us: int, high_end_us: int | None = None, now_us: int = US_PER_S) -> None:
    driver.apply(now_us, EndPredicted("first", end_us, "first is slower than predicted", high_end_us))
    driver.decide(now_us)


def test_a_later_end_moves_who_waits_for_it_and_says_why() -> None:
    driver = one_runs_one_waits()
    foresee(driver, 3 * HOUR_US, 4 * HOUR_US)
    run = driver.state.runs["first"]
    assert (promised(driver), run.end_us, run.high_end_us) == (3 * HOUR_US, 3 * HOUR_US, 4 * HOUR_US)
    assert driver.state.delayed_starts == [("next", 2 * HOUR_US, 3 * HOUR_US, "first is slower than predicted")]
    assert driver.state.later_ends == {"first": 3 * HOUR_US}
    assert run.prediction.source == "progress"


def test_the_mean_of_such_jobs_says_nothing_more_of_one_whose_progress_is_seen() -> None:
    driver = one_runs_one_waits()
    run = driver.state.runs["first"]
    run.prediction = replace(run.prediction, mean_us=HOUR_US)
    foresee(driver, 3 * HOUR_US, 4 * HOUR_US)
    assert run.prediction.expected_us == 3 * HOUR_US


def test_an_earlier_end_brings_the_promise_forward() -> None:
    driver = one_runs_one_waits()
    foresee(driver, HOUR_US // 2, HOUR_US)
    assert promised(driver) == HOUR_US // 2
    assert not driver.state.delayed_starts
    assert not driver.state.later_ends


def test_without_a_high_end_the_distance_stays() -> None:
    driver = one_runs_one_waits()
    foresee(driver, 3 * HOUR_US)
    assert driver.state.runs["first"].high_end_us == 4 * HOUR_US


@pytest.mark.parametrize("by_us", [SLACK_US, -SLACK_US, int(SLACK_RATIO * HOUR_US) - US_PER_S])
def test_a_breath_changes_nothing(by_us: int) -> None:
    driver = one_runs_one_waits()
    reservation = driver.state.timeline.reservations["next"]
    foresee(driver, HOUR_US + by_us, 2 * HOUR_US + by_us)
    assert driver.state.timeline.reservations["next"] is reservation
    assert driver.state.runs["first"].prediction.source == "user"


def test_a_high_end_alone_moves_no_promise() -> None:
    driver = one_runs_one_waits()
    reservation = driver.state.timeline.reservations["next"]
    foresee(driver, HOUR_US, 5 * HOUR_US)
    assert driver.state.timeline.reservations["next"] is reservation
    run = driver.state.runs["first"]
    assert (run.end_us, run.high_end_us) == (HOUR_US, 5 * HOUR_US)


def test_nothing_is_expected_past_a_limit_or_in_the_past() -> None:
    driver = one_runs_one_waits(limit_us=2 * HOUR_US)
    foresee(driver, 9 * HOUR_US, 12 * HOUR_US)
    run = driver.state.runs["first"]
    assert (run.end_us, run.high_end_us) == (2 * HOUR_US, 2 * HOUR_US)
    foresee(driver, 5, 7, now_us=HOUR_US)
    assert run.end_us >= HOUR_US


def test_who_leaves_or_does_not_run_is_left_alone() -> None:
    driver = one_runs_one_waits()
    foresee_nobody = EndPredicted("next", 5 * HOUR_US, "x")
    driver.apply(1, foresee_nobody)
    driver.apply(1, replace(foresee_nobody, job_id="unknown"))
    driver.apply(1, GangStopping("first"))
    foresee(driver, 5 * HOUR_US)
    assert driver.state.runs["first"].end_us == HOUR_US


def test_all_who_overrun_in_one_cycle_are_named() -> None:
    driver = Driver(SchedulerState(grid("1x2"), make_policies()), lambda now_us, decisions: None)
    for job in (a_job("a"), a_job("b")):
        driver.apply(0, JobSubmitted(job, RunTimePrediction(HOUR_US, HOUR_US, "user")))
    driver.apply(0, JobSubmitted(a_job("next", 2), RunTimePrediction(HOUR_US, HOUR_US, "user")))
    driver.decide(0)
    driver.decide(HOUR_US + 1)
    ((job_id, _, _, why),) = driver.state.delayed_starts
    assert (job_id, why) == ("next", "a runs longer than predicted; b runs longer than predicted")


@st.composite
def watched_loads(draw: st.DrawFn) -> Load:
    """Somebody watches the jobs run, and changes their mind about the ends, rightly or not."""
    load = draw(loads(estimates="any", elastic=draw(st.booleans()), windows=draw(st.booleans())))
    ids = st.sampled_from([trace.job.id for trace in load.jobs])
    us = st.integers(0, 12).map(lambda ticks: ticks * TICK_US)
    seen = st.tuples(us, ids, us, st.none() | us)
    events = [
        (at_us, EndPredicted(job_id, at_us + left_us, "seen", None if more_us is None else at_us + left_us + more_us))
        for at_us, job_id, left_us, more_us in draw(st.lists(seen, min_size=1, max_size=30))
    ]
    return replace(load, incidents=tuple(sorted(events, key=lambda event: event[0])))


@pytest.mark.parametrize(
    "plan",
    ["easy", "easy:reservations=3", "conservative", PATIENT],
)
@examples(25)
@given(load=watched_loads())
def test_the_books_and_the_promises_hold_whatever_is_expected(plan: str, load: Load) -> None:
    """The audit holds every promise against the ends as they are expected now: none can be earlier than these allow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_updates, "SLACK_US", 0)  # the loads' times are small
        result = load.run(plan, forecast=user, on_cycle=audit)
    assert all(outcome.end in ("succeeded", "failed", "timed_out", "refused") for outcome in result.outcomes)


# -- those who wait ------------------------------------------------------------------------------------------------


def test_who_waits_may_be_foretold_anew_and_then_slips_in() -> None:
    driver = one_runs_one_waits()
    driver.apply(0, JobSubmitted(a_job("small", 1), RunTimePrediction(3 * HOUR_US, 3 * HOUR_US, "history")))
    driver.apply(0, GangStopping("first"))
    driver.decide(0)
    assert "small" in driver.state.queue
    before = promised(driver)
    driver.apply(1, RunTimePredicted("small", RunTimePrediction(US_PER_S, US_PER_S, "history")))
    driver.apply(1, RunTimePredicted("nobody", RunTimePrediction(1, 1, "history")))
    assert driver.state.queue["small"].stay_us == US_PER_S
    assert driver.state.queue.stay_us.tolist() == [w.stay_us for w in driver.state.queue]
    driver.decide(1)
    assert promised(driver) == before, "others' forecasts move no promise"


@examples(30)
@given(load=loads(estimates="any"), plan=st.sampled_from(["easy", "easy:reservations=3", "conservative", PATIENT]),
       order=st.sampled_from(["fifo", "sjf", "merit"]), factor=st.sampled_from([0.3, 3.0]))  # fmt: skip
def test_the_books_hold_whatever_is_foretold_anew(load: Load, plan: str, order: str, factor: float) -> None:
    def anew(state: SchedulerState, now_us: int) -> None:
        for waiting in list(state.queue):
            forecast = waiting.prediction
            if forecast.mid_us < HOUR_US:
                longer_us = max(1, round(forecast.high_us * factor))
                state.update_prediction(
                    waiting.job.id, RunTimePrediction(min(forecast.mid_us, longer_us), longer_us, "history")
                )
        audit(state, now_us)

    load.run(plan, order, forecast=user, on_cycle=anew)
