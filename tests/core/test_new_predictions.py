"""New predictions for running and pending jobs: reservations follow, small changes are ignored."""

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
PLAN_WITH_PATIENCE = "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005"


def make_job(name: str, gpus: int = 1, **rest) -> Job:
    return Job(name, (Role("task", 1, Request(gpus=gpus)),), **rest)


def driver_with_reservation(**first_fields) -> Driver:
    """``first`` holds both cards, with a predicted end after an hour; ``next`` has a reservation from then on."""
    driver = Driver(SchedulerState(grid("1x2"), make_policies()), lambda now_us, decisions: None)
    for job in (make_job("first", 2, **first_fields), make_job("next", 2)):
        driver.apply(0, JobSubmitted(job, RunTimePrediction(HOUR_US, 2 * HOUR_US, "user")))
    driver.decide(0)
    assert reserved_us(driver) == HOUR_US
    return driver


def reserved_us(driver: Driver) -> int:
    return driver.state.timeline.reservations["next"].start_us


def predict_end(driver: Driver, end_us: int, high_end_us: int | None = None, now_us: int = US_PER_S) -> None:
    driver.apply(now_us, EndPredicted("first", end_us, "first is slower than predicted", high_end_us))
    driver.decide(now_us)


def test_later_predicted_end_moves_the_reservation_and_reports_the_cause() -> None:
    driver = driver_with_reservation()
    predict_end(driver, 3 * HOUR_US, 4 * HOUR_US)
    run = driver.state.runs["first"]
    assert (reserved_us(driver), run.end_us, run.high_end_us) == (3 * HOUR_US, 3 * HOUR_US, 4 * HOUR_US)
    assert driver.state.delayed_starts == [("next", 2 * HOUR_US, 3 * HOUR_US, "first is slower than predicted")]
    assert driver.state.later_ends == {"first": 3 * HOUR_US}
    assert run.prediction.source == "progress"


def test_end_predicted_from_progress_replaces_the_mean_of_similar_jobs() -> None:
    driver = driver_with_reservation()
    run = driver.state.runs["first"]
    run.prediction = replace(run.prediction, mean_us=HOUR_US)
    predict_end(driver, 3 * HOUR_US, 4 * HOUR_US)
    assert run.prediction.expected_us == 3 * HOUR_US


def test_earlier_predicted_end_moves_the_reservation_forward() -> None:
    driver = driver_with_reservation()
    predict_end(driver, HOUR_US // 2, HOUR_US)
    assert reserved_us(driver) == HOUR_US // 2
    assert not driver.state.delayed_starts
    assert not driver.state.later_ends


def test_high_end_keeps_its_distance_when_only_the_end_is_predicted() -> None:
    driver = driver_with_reservation()
    predict_end(driver, 3 * HOUR_US)
    assert driver.state.runs["first"].high_end_us == 4 * HOUR_US


@pytest.mark.parametrize("by_us", [SLACK_US, -SLACK_US, int(SLACK_RATIO * HOUR_US) - US_PER_S])
def test_predicted_end_within_the_slack_changes_nothing(by_us: int) -> None:
    driver = driver_with_reservation()
    reservation = driver.state.timeline.reservations["next"]
    predict_end(driver, HOUR_US + by_us, 2 * HOUR_US + by_us)
    assert driver.state.timeline.reservations["next"] is reservation
    assert driver.state.runs["first"].prediction.source == "user"


def test_new_high_end_alone_moves_no_reservation() -> None:
    driver = driver_with_reservation()
    reservation = driver.state.timeline.reservations["next"]
    predict_end(driver, HOUR_US, 5 * HOUR_US)
    assert driver.state.timeline.reservations["next"] is reservation
    run = driver.state.runs["first"]
    assert (run.end_us, run.high_end_us) == (HOUR_US, 5 * HOUR_US)


def test_predicted_end_is_within_the_time_limit_and_not_in_the_past() -> None:
    driver = driver_with_reservation(limit_us=2 * HOUR_US)
    predict_end(driver, 9 * HOUR_US, 12 * HOUR_US)
    run = driver.state.runs["first"]
    assert (run.end_us, run.high_end_us) == (2 * HOUR_US, 2 * HOUR_US)
    predict_end(driver, 5, 7, now_us=HOUR_US)
    assert run.end_us >= HOUR_US


def test_predicted_end_is_ignored_for_stopping_or_pending_jobs() -> None:
    driver = driver_with_reservation()
    prediction = EndPredicted("next", 5 * HOUR_US, "x")
    driver.apply(1, prediction)
    driver.apply(1, replace(prediction, job_id="unknown"))
    driver.apply(1, GangStopping("first"))
    predict_end(driver, 5 * HOUR_US)
    assert driver.state.runs["first"].end_us == HOUR_US


def test_delay_names_all_runs_that_overrun_in_one_cycle() -> None:
    driver = Driver(SchedulerState(grid("1x2"), make_policies()), lambda now_us, decisions: None)
    for job in (make_job("a"), make_job("b")):
        driver.apply(0, JobSubmitted(job, RunTimePrediction(HOUR_US, HOUR_US, "user")))
    driver.apply(0, JobSubmitted(make_job("next", 2), RunTimePrediction(HOUR_US, HOUR_US, "user")))
    driver.decide(0)
    driver.decide(HOUR_US + 1)
    ((job_id, _, _, why),) = driver.state.delayed_starts
    assert (job_id, why) == ("next", "a runs longer than predicted; b runs longer than predicted")


@st.composite
def loads_with_end_predictions(draw: st.DrawFn) -> Load:
    """Loads with arbitrary end predictions for their jobs."""
    load = draw(loads(estimates="any", elastic=draw(st.booleans()), windows=draw(st.booleans())))
    ids = st.sampled_from([trace.job.id for trace in load.jobs])
    us = st.integers(0, 12).map(lambda ticks: ticks * TICK_US)
    prediction_rows = st.tuples(us, ids, us, st.none() | us)
    events = [
        (at_us, EndPredicted(job_id, at_us + left_us, "seen", None if more_us is None else at_us + left_us + more_us))
        for at_us, job_id, left_us, more_us in draw(st.lists(prediction_rows, min_size=1, max_size=30))
    ]
    return replace(load, incidents=tuple(sorted(events, key=lambda event: event[0])))


@pytest.mark.parametrize(
    "plan",
    ["easy", "easy:reservations=3", "conservative", PLAN_WITH_PATIENCE],
)
@examples(25)
@given(load=loads_with_end_predictions())
def test_accounting_and_reservations_are_consistent_with_any_predicted_ends(plan: str, load: Load) -> None:
    """The audit checks that no reservation starts earlier than the predicted ends allow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_updates, "SLACK_US", 0)  # the times in the loads are small
        result = load.run(plan, forecast=user, on_cycle=audit)
    assert all(outcome.end in ("succeeded", "failed", "timed_out", "refused") for outcome in result.outcomes)


# -- pending jobs --------------------------------------------------------------------------------------------------


def test_new_run_time_prediction_of_a_pending_job_moves_no_reservation() -> None:
    driver = driver_with_reservation()
    driver.apply(0, JobSubmitted(make_job("small", 1), RunTimePrediction(3 * HOUR_US, 3 * HOUR_US, "history")))
    driver.apply(0, GangStopping("first"))
    driver.decide(0)
    assert "small" in driver.state.queue
    before = reserved_us(driver)
    driver.apply(1, RunTimePredicted("small", RunTimePrediction(US_PER_S, US_PER_S, "history")))
    driver.apply(1, RunTimePredicted("nobody", RunTimePrediction(1, 1, "history")))
    assert driver.state.queue["small"].stay_us == US_PER_S
    assert driver.state.queue.stay_us.tolist() == [w.stay_us for w in driver.state.queue]
    driver.decide(1)
    assert reserved_us(driver) == before, "predictions of other jobs move no reservation"


@examples(30)
@given(load=loads(estimates="any"),
       plan=st.sampled_from(["easy", "easy:reservations=3", "conservative", PLAN_WITH_PATIENCE]),
       order=st.sampled_from(["fifo", "sjf", "merit"]), factor=st.sampled_from([0.3, 3.0]))  # fmt: skip
def test_accounting_is_consistent_with_any_new_run_time_predictions(
    load: Load, plan: str, order: str, factor: float
) -> None:
    def update_predictions(state: SchedulerState, now_us: int) -> None:
        for waiting in list(state.queue):
            prediction = waiting.prediction
            if prediction.mid_us < HOUR_US:
                longer_us = max(1, round(prediction.high_us * factor))
                state.update_prediction(
                    waiting.job.id, RunTimePrediction(min(prediction.mid_us, longer_us), longer_us, "history")
                )
        audit(state, now_us)

    load.run(plan, order, forecast=user, on_cycle=update_predictions)
