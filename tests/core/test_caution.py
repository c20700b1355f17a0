"""Caution: after a long wait of the head of the queue, careful quantiles apply to all jobs until it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.cycle import _next_belief_us
from gpusquad.core.driver import Driver
from gpusquad.core.ports import GangEnded, JobCancelled, JobSubmitted
from gpusquad.core.snapshot.dump import dump_snapshot
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.model.cluster import grid
from gpusquad.model.decision import Start
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim import simulator
from gpusquad.sim.traces import TraceJob
from tests.audit import audit
from tests.core.test_dump import DriverWithCopy, through_json
from tests.strategies import Load, examples, loads

HOUR = 3600 * US_PER_S
MINUTE = 60 * US_PER_S
PLAN = "easy:backfill=merit,patience_s=3600"


def make_job(name: str, gpus: int = 1, at_us: int = 0, **rest) -> Job:
    return Job(name, (Role("task", gpus, Request(gpus=1)),), at_us, **rest)


def prediction_with_spread(
    mid_us: int, *, high: float = 2.0, careful: float = 3.0, reservation: float = 4.0, merit: float = 0.0
) -> RunTimePrediction:
    return RunTimePrediction(mid_us, round(mid_us * high), "history", round(mid_us * reservation),
                    (round(mid_us * high), round(mid_us * reservation)), round(mid_us * careful), merit)  # fmt: skip


def driver_of(plan: str = PLAN, cluster: str = "1x4", order: str = "fifo") -> Driver:
    return Driver(SchedulerState(grid(cluster), make_policies(order, plan)), lambda now_us, decisions: None)


def submit(driver: Driver, job: Job, forecast: RunTimePrediction) -> None:
    driver.apply(job.submitted_us, JobSubmitted(job, forecast))


def started(driver: Driver, now_us: int) -> list[str]:
    return [decision.job_id for decision in driver.decide(now_us) if isinstance(decision, Start)]


def driver_with_waiting_head(plan: str = PLAN, gpus: int = 4) -> Driver:
    """``runs`` holds three of four cards for a predicted ten hours; ``first`` needs ``gpus`` cards and waits."""
    driver = driver_of(plan)
    submit(driver, make_job("runs", 3), prediction_with_spread(10 * HOUR))
    submit(driver, make_job("first", gpus), prediction_with_spread(HOUR))
    assert started(driver, 0) == ["runs"]
    return driver


# -- start and end of caution ----------------------------------------------------------------------------------------


def test_caution_starts_when_the_head_has_waited_longer_than_patience():
    driver = driver_with_waiting_head()
    driver.decide(HOUR)
    assert not driver.state.careful
    driver.decide(HOUR + 1)
    assert driver.state.careful


def test_caution_ends_when_the_head_has_started():
    driver = driver_with_waiting_head()
    driver.decide(2 * HOUR)
    driver.apply(3 * HOUR, GangEnded("runs", "succeeded"))
    assert started(driver, 3 * HOUR) == ["first"]
    driver.decide(3 * HOUR + 1)
    assert not driver.state.careful


@pytest.mark.parametrize("waited_h", [1, 7])
def test_caution_depends_on_the_wait_of_the_next_head_after_a_cancel(waited_h: int):
    driver = driver_with_waiting_head()
    at_us = 8 * HOUR - waited_h * HOUR
    submit(driver, make_job("next", 4, at_us), prediction_with_spread(HOUR))
    driver.decide(8 * HOUR)
    driver.apply(8 * HOUR + 1, JobCancelled("first"))
    driver.decide(8 * HOUR + 2)
    assert driver.state.careful is (waited_h == 7 or 8 * HOUR + 2 - at_us > HOUR)
    driver.apply(8 * HOUR + 3, JobCancelled("next"))
    driver.decide(8 * HOUR + 4)
    assert not driver.state.careful


def test_caution_never_starts_without_patience_s():
    driver = driver_with_waiting_head("easy:backfill=merit")
    driver.decide(1000 * HOUR)
    assert not driver.state.careful


@pytest.mark.parametrize(("gpus", "loses_after_s"), [(4, 1800), (2, 2700)])
def test_caution_starts_sooner_for_wide_gangs(gpus: int, loses_after_s: int):
    driver = driver_with_waiting_head(PLAN + ",wide=0.5", gpus)
    driver.decide(loses_after_s * US_PER_S)
    assert not driver.state.careful
    driver.decide(loses_after_s * US_PER_S + 1)
    assert driver.state.careful


# -- effect of caution -----------------------------------------------------------------------------------------------


def test_caution_uses_careful_quantiles_and_restores_the_usual_ones():
    driver = driver_with_waiting_head()
    state = driver.state
    submit(driver, make_job("other", 4, 1), prediction_with_spread(2 * HOUR))
    driver.decide(MINUTE)
    run, other = state.runs["runs"], state.queue["other"]
    assert (run.end_us, other.stay_us, state.timeline.reservations["first"].start_us) == (
        10 * HOUR,
        4 * HOUR,
        10 * HOUR,
    )
    driver.decide(2 * HOUR)
    assert (run.end_us, run.high_end_us, other.stay_us) == (40 * HOUR, 40 * HOUR, 6 * HOUR)
    assert state.timeline.reservations["first"].start_us == 40 * HOUR
    assert state.queue.stay_us.tolist() == [w.stay_us for w in state.queue]
    driver.apply(2 * HOUR, JobCancelled("first"))
    driver.apply(2 * HOUR, JobCancelled("other"))
    submit(driver, make_job("late", 4, 2 * HOUR), prediction_with_spread(HOUR))
    driver.decide(2 * HOUR + 1)
    assert not state.careful
    assert (run.end_us, run.slack_us, run.high_end_us) == (10 * HOUR, 0, 40 * HOUR)
    assert state.queue["late"].stay_us == 2 * HOUR
    assert not state.delayed_starts, "no delay is reported: no earlier start was reserved"


def test_first_reserved_start_uses_the_reservation_quantile():
    driver = driver_with_waiting_head()
    assert driver.state.first_reserved_us == {"first": 40 * HOUR}
    driver.decide(2 * HOUR)
    assert driver.state.first_reserved_us == {"first": 40 * HOUR}


def test_careful_quantile_applies_to_jobs_submitted_or_started_during_caution():
    driver = driver_with_waiting_head()
    driver.decide(2 * HOUR)
    submit(driver, make_job("small", 1, 2 * HOUR), prediction_with_spread(HOUR))
    assert driver.state.queue["small"].stay_us == 3 * HOUR
    assert started(driver, 2 * HOUR) == ["small"]
    small = driver.state.runs["small"]
    assert (small.end_us, small.slack_us) == (5 * HOUR, 2 * HOUR), (
        "by the careful quantile with which it was backfilled"
    )


@pytest.mark.parametrize(("patience", "backfilled"), [("patience_s=3600", []), ("patience_s=inf", ["guess"])])
def test_job_with_a_long_careful_quantile_is_not_backfilled_during_caution(patience: str, backfilled: list[str]):
    """``guess`` usually ends within an hour, at worst within a hundred; the reservation starts in forty hours."""
    driver = driver_with_waiting_head(f"easy:backfill=merit,{patience}")
    driver.decide(2 * HOUR)
    submit(driver, make_job("guess", 1, 2 * HOUR), prediction_with_spread(HOUR, high=2, careful=100, reservation=100))
    assert started(driver, 2 * HOUR) == backfilled


# -- order of backfill -----------------------------------------------------------------------------------------------


def backfill_order(plan: str, rows: dict[str, tuple[int, int, float]]) -> list[str]:
    """Order in which jobs start that wait for a card behind the head; rows: (submission, width, merit)."""
    driver = driver_of(plan, "1x8")
    submit(driver, make_job("runs", 7), prediction_with_spread(100 * HOUR))
    submit(driver, make_job("holds", 1), prediction_with_spread(10 * HOUR))
    submit(driver, make_job("first", 8), prediction_with_spread(HOUR))
    driver.decide(0)
    for name, (at_us, gpus, merit) in sorted(rows.items(), key=lambda row: row[1][0]):
        submit(driver, make_job(name, gpus, at_us), prediction_with_spread(HOUR, merit=merit))
        assert started(driver, at_us) == []
    order, now_us, holder = [], 5 * HOUR, "holds"
    for _ in rows:
        driver.apply(now_us, GangEnded(holder, "succeeded"))
        (holder,) = started(driver, now_us)
        order.append(holder)
        now_us += MINUTE
    return order


def test_backfill_order_is_by_merit():
    rows = {"a": (HOUR, 1, 1e-6), "b": (2 * HOUR, 1, 1e-3), "c": (3 * HOUR, 1, 1e-5)}
    assert backfill_order("easy:backfill=merit", rows) == ["b", "c", "a"]
    assert backfill_order("easy", rows) == ["a", "b", "c"]


def test_aged_jobs_are_backfilled_first_by_submission_time():
    rows = {"a": (HOUR, 1, 1e-6), "b": (2 * HOUR, 1, 1e-5), "c": (4 * HOUR, 1, 1e-3), "d": (4 * HOUR + 1, 1, 1e-2)}
    assert backfill_order("easy:backfill=merit,aged_s=7200", rows) == ["a", "b", "d", "c"]


def test_backfill_merit_is_weighted_by_the_root_of_the_width():
    """Four cards with twice the merit equal one card; slightly more merit on either side decides."""
    for merit, first in ((2.1e-6, "wide"), (1.9e-6, "narrow")):
        driver = driver_of("easy:backfill=merit", "1x8")
        submit(driver, make_job("runs", 4), prediction_with_spread(100 * HOUR))
        submit(driver, make_job("holds", 4), prediction_with_spread(10 * HOUR))
        submit(driver, make_job("first", 8), prediction_with_spread(HOUR))
        driver.decide(0)
        submit(driver, make_job("narrow", 1, 1), prediction_with_spread(HOUR, merit=1e-6))
        submit(driver, make_job("wide", 4, 2), prediction_with_spread(HOUR, merit=merit))
        driver.decide(2)
        driver.apply(HOUR, GangEnded("holds", "succeeded"))
        assert started(driver, HOUR) == [first]


# -- running past a prediction ---------------------------------------------------------------------------------------


def one_run(limit_us: int | None = None) -> Run:
    driver = driver_of("easy")
    forecast = RunTimePrediction(HOUR, 2 * HOUR, "history", later_us=(2 * HOUR, 3 * HOUR))
    submit(driver, make_job("late", 4, limit_us=limit_us), forecast if limit_us is None else forecast.within(limit_us))
    driver.decide(0)
    return driver.state.runs["late"]


def test_overrun_end_is_the_next_quantile_then_grows_with_the_lateness():
    run = one_run()
    assert _next_belief_us(run, HOUR + 1) == 2 * HOUR
    assert _next_belief_us(run, 2 * HOUR) == 3 * HOUR
    assert _next_belief_us(run, 3 * HOUR) == 3 * HOUR + 3 * HOUR // 8, "slightly late: an eighth at least"
    assert _next_belief_us(run, 4 * HOUR) == 5 * HOUR
    assert _next_belief_us(run, 7 * HOUR) == 11 * HOUR


def test_overrun_end_is_bounded_by_the_time_limit():
    run = one_run(4 * HOUR)
    assert _next_belief_us(run, 3 * HOUR + HOUR // 2) == 4 * HOUR
    assert _next_belief_us(run, 4 * HOUR + MINUTE) > 4 * HOUR + MINUTE, "stopping, and still running"


@given(st.integers(1, 100 * HOUR), st.none() | st.integers(1, 50 * HOUR))
def test_overrun_end_is_always_in_the_future(passed_us: int, limit_us: int | None):
    later_us = _next_belief_us(one_run(limit_us), passed_us)
    assert later_us > passed_us
    assert limit_us is None or passed_us >= limit_us or later_us <= limit_us


@pytest.mark.parametrize("careful", [False, True])
def test_overrun_moves_the_end_and_the_reservation_and_leaves_no_slack(careful: bool):
    driver = driver_with_waiting_head(f"easy:patience_s={3600 if careful else 'inf'}")
    late_us = (41 if careful else 11) * HOUR
    driver.decide(2 * HOUR)
    driver.decide(late_us)
    run = driver.state.runs["runs"]
    assert run.slack_us == 0
    assert run.end_us == {False: 20 * HOUR, True: late_us + 40 * HOUR // 8}[careful]
    assert driver.state.timeline.reservations["first"].start_us == run.end_us


# -- properties ------------------------------------------------------------------------------------------------------

PLANS_WITH_PATIENCE = [
    "easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005",
    "easy:patience_s=0.003,reservations=2",
    "easy:backfill=shortest,patience_s=0",
]


def wrong_predictions(factors: tuple[float, ...], careful: float = 2.5) -> Callable[[TraceJob], RunTimePrediction]:
    """Predictions with a spread around a median that is too long for some jobs and too short for others."""

    def forecast(trace: TraceJob) -> RunTimePrediction:
        factor = factors[int(trace.job.id[1:]) % len(factors)]
        prediction = prediction_with_spread(
            max(1, round(trace.run_us * factor)), high=1.5, careful=careful, reservation=4.0
        )
        return prediction if trace.job.limit_us is None else prediction.within(trace.job.limit_us)

    return forecast


factors = st.lists(st.sampled_from([0.1, 0.3, 0.6, 1.0, 1.5, 4.0]), min_size=1, max_size=6).map(tuple)
mixed_loads = loads(fates=True, priorities=True, windows=True, incidents=True)


@pytest.mark.parametrize("plan", PLANS_WITH_PATIENCE)
@pytest.mark.parametrize("order", ["fifo", "merit:max_wait_s=0.01,wide=0.5"])
@examples(15)
@given(load=mixed_loads, factors=factors)
def test_accounting_is_consistent_and_every_job_ends(plan: str, order: str, load: Load, factors):
    """The careful quantile is above the one for backfill, so a backfilled job never overlaps a reservation."""
    result = load.run(plan, order, forecast=wrong_predictions(factors, careful=2.5), on_cycle=audit)
    assert all(o.end in {"succeeded", "failed", "timed_out", "refused"} for o in result.outcomes)


@pytest.mark.parametrize("plan", PLANS_WITH_PATIENCE)
@examples(15)
@given(load=mixed_loads, factors=factors)
def test_every_job_ends_with_any_careful_quantile(plan: str, load: Load, factors):
    result = load.run(
        plan,
        forecast=wrong_predictions(factors),
        on_cycle=lambda state, now_us: audit(state, now_us, reservations=False),
    )
    assert all(o.end in {"succeeded", "failed", "timed_out", "refused"} for o in result.outcomes)


@pytest.mark.parametrize("plan", PLANS_WITH_PATIENCE[:2])
@examples(15)
@given(load=loads(incidents=True), factors=factors)
def test_ends_and_stays_always_match_the_caution_of_the_state(plan: str, load: Load, factors):
    """Compared with values computed from the predictions alone."""

    def check_state(state: SchedulerState, now_us: int) -> None:
        for waiting in state.queue:
            expected = replace(waiting)
            expected.set_caution(state.careful)
            assert waiting.stay_us == expected.stay_us
        for run in state.runs.by_id.values():
            assert run.slack_us >= 0
            assert run.slack_us == 0 or state.careful
            assert run.end_us >= run.started_us

    load.run(plan, forecast=wrong_predictions(factors), on_cycle=check_state)


@pytest.mark.parametrize("make_copy", [through_json, copy_state])
@examples(12)
@given(
    load=mixed_loads,
    plan=st.sampled_from(PLANS_WITH_PATIENCE),
    order=st.sampled_from(["fifo", "merit:max_wait_s=0.01"]),
    factors=factors,
)
def test_copied_state_decides_like_the_original_at_any_time(make_copy, load: Load, plan: str, order: str, factors):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DriverWithCopy, "make_copy", staticmethod(make_copy), raising=False)
        patch.setattr(simulator, "Driver", DriverWithCopy)
        load.run(plan, order, forecast=wrong_predictions(factors))


@examples(10)
@given(load=loads(mixed=False), factors=factors)
def test_setting_and_resetting_caution_changes_nothing(load: Load, factors):
    def set_and_reset(state: SchedulerState, now_us: int) -> None:
        if state.careful:
            return
        copy = copy_state(state)
        before = dump_snapshot(copy)
        copy.set_caution(True)
        copy.set_caution(False)
        after = dump_snapshot(copy)
        for name in ("running", "pending"):
            assert after[name] == before[name]

    load.run("easy:backfill=merit", forecast=wrong_predictions(factors), on_cycle=set_and_reset)
