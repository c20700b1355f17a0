"""Predictions may be wrong at the cost of whoever waits, for a while: then all are judged carefully until it runs."""

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
from tests.core.test_dump import Twice, through_json
from tests.strategies import Load, examples, loads

HOUR = 3600 * US_PER_S
MINUTE = 60 * US_PER_S
PLAN = "easy:backfill=merit,patience_s=3600"


def a_job(name: str, gpus: int = 1, at_us: int = 0, **rest) -> Job:
    return Job(name, (Role("task", gpus, Request(gpus=1)),), at_us, **rest)


def spread(
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


def first_waits(plan: str = PLAN, gpus: int = 4) -> Driver:
    """``runs`` holds three of four cards, for ten hours as it is expected; ``first`` needs all that are named."""
    driver = driver_of(plan)
    submit(driver, a_job("runs", 3), spread(10 * HOUR))
    submit(driver, a_job("first", gpus), spread(HOUR))
    assert started(driver, 0) == ["runs"]
    return driver


# -- when patience is over, and when it is back ----------------------------------------------------------------------


def test_it_is_over_when_the_first_in_line_has_waited_longer_than_allowed():
    driver = first_waits()
    driver.decide(HOUR)
    assert not driver.state.careful
    driver.decide(HOUR + 1)
    assert driver.state.careful


def test_it_is_back_when_the_first_in_line_has_started():
    driver = first_waits()
    driver.decide(2 * HOUR)
    driver.apply(3 * HOUR, GangEnded("runs", "succeeded"))
    assert started(driver, 3 * HOUR) == ["first"]
    driver.decide(3 * HOUR + 1)
    assert not driver.state.careful


@pytest.mark.parametrize("waited_h", [1, 7])
def test_the_next_in_line_has_a_patience_of_its_own(waited_h: int):
    driver = first_waits()
    at_us = 8 * HOUR - waited_h * HOUR
    submit(driver, a_job("next", 4, at_us), spread(HOUR))
    driver.decide(8 * HOUR)
    driver.apply(8 * HOUR + 1, JobCancelled("first"))
    driver.decide(8 * HOUR + 2)
    assert driver.state.careful is (waited_h == 7 or 8 * HOUR + 2 - at_us > HOUR)
    driver.apply(8 * HOUR + 3, JobCancelled("next"))
    driver.decide(8 * HOUR + 4)
    assert not driver.state.careful


def test_without_a_bound_patience_is_never_over():
    driver = first_waits("easy:backfill=merit")
    driver.decide(1000 * HOUR)
    assert not driver.state.careful


@pytest.mark.parametrize(("gpus", "loses_after_s"), [(4, 1800), (2, 2700)])
def test_wide_gangs_lose_it_sooner(gpus: int, loses_after_s: int):
    driver = first_waits(PLAN + ",wide=0.5", gpus)
    driver.decide(loses_after_s * US_PER_S)
    assert not driver.state.careful
    driver.decide(loses_after_s * US_PER_S + 1)
    assert driver.state.careful


# -- what it changes -------------------------------------------------------------------------------------------------


def test_ends_and_stays_are_counted_carefully_and_come_back_exactly():
    driver = first_waits()
    state = driver.state
    submit(driver, a_job("other", 4, 1), spread(2 * HOUR))
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
    submit(driver, a_job("late", 4, 2 * HOUR), spread(HOUR))
    driver.decide(2 * HOUR + 1)
    assert not state.careful
    assert (run.end_us, run.slack_us, run.high_end_us) == (10 * HOUR, 0, 40 * HOUR)
    assert state.queue["late"].stay_us == 2 * HOUR
    assert not state.delayed_starts, "nobody is told: nothing was promised earlier than this"


def test_the_first_promise_is_made_by_what_promises_are_made_by():
    driver = first_waits()
    assert driver.state.first_reserved_us == {"first": 40 * HOUR}
    driver.decide(2 * HOUR)
    assert driver.state.first_reserved_us == {"first": 40 * HOUR}


def test_who_comes_or_starts_meanwhile_is_judged_carefully_too():
    driver = first_waits()
    driver.decide(2 * HOUR)
    submit(driver, a_job("small", 1, 2 * HOUR), spread(HOUR))
    assert driver.state.queue["small"].stay_us == 3 * HOUR
    assert started(driver, 2 * HOUR) == ["small"]
    small = driver.state.runs["small"]
    assert (small.end_us, small.slack_us) == (5 * HOUR, 2 * HOUR), "by its careful quantile, by which it was let in"


@pytest.mark.parametrize(("patient", "slips_in"), [("patience_s=3600", []), ("patience_s=inf", ["guess"])])
def test_who_might_stay_too_long_no_longer_slips_in(patient: str, slips_in: list[str]):
    """``guess`` is over within an hour as a rule, and within a hundred at worst; the promise is forty hours off."""
    driver = first_waits(f"easy:backfill=merit,{patient}")
    driver.decide(2 * HOUR)
    submit(driver, a_job("guess", 1, 2 * HOUR), spread(HOUR, high=2, careful=100, reservation=100))
    assert started(driver, 2 * HOUR) == slips_in


# -- who slips in first ----------------------------------------------------------------------------------------------


def waiting_for_one_card(plan: str, rows: dict[str, tuple[int, int, float]]) -> list[str]:
    """In which order those start who wait for a card beside the first in line; (since, width, merit) of each."""
    driver = driver_of(plan, "1x8")
    submit(driver, a_job("runs", 7), spread(100 * HOUR))
    submit(driver, a_job("holds", 1), spread(10 * HOUR))
    submit(driver, a_job("first", 8), spread(HOUR))
    driver.decide(0)
    for name, (at_us, gpus, merit) in sorted(rows.items(), key=lambda row: row[1][0]):
        submit(driver, a_job(name, gpus, at_us), spread(HOUR, merit=merit))
        assert started(driver, at_us) == []
    order, now_us, holder = [], 5 * HOUR, "holds"
    for _ in rows:
        driver.apply(now_us, GangEnded(holder, "succeeded"))
        (holder,) = started(driver, now_us)
        order.append(holder)
        now_us += MINUTE
    return order


def test_by_merit():
    rows = {"a": (HOUR, 1, 1e-6), "b": (2 * HOUR, 1, 1e-3), "c": (3 * HOUR, 1, 1e-5)}
    assert waiting_for_one_card("easy:backfill=merit", rows) == ["b", "c", "a"]
    assert waiting_for_one_card("easy", rows) == ["a", "b", "c"]


def test_the_aged_go_first_by_request_time():
    rows = {"a": (HOUR, 1, 1e-6), "b": (2 * HOUR, 1, 1e-5), "c": (4 * HOUR, 1, 1e-3), "d": (4 * HOUR + 1, 1, 1e-2)}
    assert waiting_for_one_card("easy:backfill=merit,aged_s=7200", rows) == ["a", "b", "d", "c"]


def test_merit_counts_by_the_root_of_the_width():
    """Four cards and twice the merit of one card are worth the same; a little more of either decides."""
    for merit, first in ((2.1e-6, "wide"), (1.9e-6, "narrow")):
        driver = driver_of("easy:backfill=merit", "1x8")
        submit(driver, a_job("runs", 4), spread(100 * HOUR))
        submit(driver, a_job("holds", 4), spread(10 * HOUR))
        submit(driver, a_job("first", 8), spread(HOUR))
        driver.decide(0)
        submit(driver, a_job("narrow", 1, 1), spread(HOUR, merit=1e-6))
        submit(driver, a_job("wide", 4, 2), spread(HOUR, merit=merit))
        driver.decide(2)
        driver.apply(HOUR, GangEnded("holds", "succeeded"))
        assert started(driver, HOUR) == [first]


# -- running past a prediction ---------------------------------------------------------------------------------------


def a_run(limit_us: int | None = None) -> Run:
    driver = driver_of("easy")
    forecast = RunTimePrediction(HOUR, 2 * HOUR, "history", later_us=(2 * HOUR, 3 * HOUR))
    submit(driver, a_job("late", 4, limit_us=limit_us), forecast if limit_us is None else forecast.within(limit_us))
    driver.decide(0)
    return driver.state.runs["late"]


def test_an_overrun_is_believed_to_last_to_its_next_quantile_and_then_as_long_again_as_it_is_late():
    run = a_run()
    assert _next_belief_us(run, HOUR + 1) == 2 * HOUR
    assert _next_belief_us(run, 2 * HOUR) == 3 * HOUR
    assert _next_belief_us(run, 3 * HOUR) == 3 * HOUR + 3 * HOUR // 8, "a little late: an eighth at least"
    assert _next_belief_us(run, 4 * HOUR) == 5 * HOUR
    assert _next_belief_us(run, 7 * HOUR) == 11 * HOUR


def test_a_limit_bounds_it():
    run = a_run(4 * HOUR)
    assert _next_belief_us(run, 3 * HOUR + HOUR // 2) == 4 * HOUR
    assert _next_belief_us(run, 4 * HOUR + MINUTE) > 4 * HOUR + MINUTE, "told to go, and still there"


@given(st.integers(1, 100 * HOUR), st.none() | st.integers(1, 50 * HOUR))
def test_the_next_belief_is_always_ahead(passed_us: int, limit_us: int | None):
    later_us = _next_belief_us(a_run(limit_us), passed_us)
    assert later_us > passed_us
    assert limit_us is None or passed_us >= limit_us or later_us <= limit_us


@pytest.mark.parametrize("careful", [False, True])
def test_an_overrun_moves_the_end_and_leaves_no_slack(careful: bool):
    driver = first_waits(f"easy:patience_s={3600 if careful else 'inf'}")
    late_us = (41 if careful else 11) * HOUR
    driver.decide(2 * HOUR)
    driver.decide(late_us)
    run = driver.state.runs["runs"]
    assert run.slack_us == 0
    assert run.end_us == {False: 20 * HOUR, True: late_us + 40 * HOUR // 8}[careful]
    assert driver.state.timeline.reservations["first"].start_us == run.end_us


# -- whatever comes --------------------------------------------------------------------------------------------------

PATIENT = ["easy:backfill=merit,patience_s=0.002,wide=0.5,aged_s=0.005", "easy:patience_s=0.003,reservations=2",
           "easy:backfill=shortest,patience_s=0"]  # fmt: skip


def wrong(factors: tuple[float, ...], careful: float = 2.5) -> Callable[[TraceJob], RunTimePrediction]:
    """Forecasts with a spread, around a middle that is too long for some and too short for others."""

    def forecast(trace: TraceJob) -> RunTimePrediction:
        factor = factors[int(trace.job.id[1:]) % len(factors)]
        found = spread(max(1, round(trace.run_us * factor)), high=1.5, careful=careful, reservation=4.0)
        return found if trace.job.limit_us is None else found.within(trace.job.limit_us)

    return forecast


factors = st.lists(st.sampled_from([0.1, 0.3, 0.6, 1.0, 1.5, 4.0]), min_size=1, max_size=6).map(tuple)
hard = loads(fates=True, priorities=True, windows=True, incidents=True)


@pytest.mark.parametrize("plan", PATIENT)
@pytest.mark.parametrize("order", ["fifo", "merit:max_wait_s=0.01,wide=0.5"])
@examples(15)
@given(load=hard, factors=factors)
def test_the_books_hold_and_nobody_is_lost(plan: str, order: str, load: Load, factors):
    """Who slips in by a lower quantile than ends are counted by would stand in the way of the promise, in the books."""
    result = load.run(plan, order, forecast=wrong(factors, careful=2.5), on_cycle=audit)
    assert all(o.end in {"succeeded", "failed", "timed_out", "refused"} for o in result.outcomes)


@pytest.mark.parametrize("plan", PATIENT)
@examples(15)
@given(load=hard, factors=factors)
def test_nobody_is_lost_however_they_are_judged(plan: str, load: Load, factors):
    result = load.run(
        plan, forecast=wrong(factors), on_cycle=lambda state, now_us: audit(state, now_us, reservations=False)
    )
    assert all(o.end in {"succeeded", "failed", "timed_out", "refused"} for o in result.outcomes)


@pytest.mark.parametrize("plan", PATIENT[:2])
@examples(15)
@given(load=loads(incidents=True), factors=factors)
def test_ends_and_stays_are_always_what_the_mood_says(plan: str, load: Load, factors):
    """Worked out anew from the forecasts alone."""

    def by_hand(state: SchedulerState, now_us: int) -> None:
        for waiting in state.queue:
            told = replace(waiting)
            told.set_caution(state.careful)
            assert waiting.stay_us == told.stay_us
        for run in state.runs.by_id.values():
            assert run.slack_us >= 0
            assert run.slack_us == 0 or state.careful
            assert run.end_us >= run.started_us

    load.run(plan, forecast=wrong(factors), on_cycle=by_hand)


@pytest.mark.parametrize("second", [through_json, copy_state])
@examples(12)
@given(
    load=hard, plan=st.sampled_from(PATIENT), order=st.sampled_from(["fifo", "merit:max_wait_s=0.01"]), factors=factors
)
def test_loaded_at_any_instant_it_goes_on_as_the_original(second, load: Load, plan: str, order: str, factors):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Twice, "second", staticmethod(second), raising=False)
        patch.setattr(simulator, "Driver", Twice)
        load.run(plan, order, forecast=wrong(factors))


@examples(10)
@given(load=loads(mixed=False), factors=factors)
def test_to_change_over_and_back_changes_nothing(load: Load, factors):
    def there_and_back(state: SchedulerState, now_us: int) -> None:
        if state.careful:
            return
        copy = copy_state(state)
        before = dump_snapshot(copy)
        copy.set_caution(True)
        copy.set_caution(False)
        after = dump_snapshot(copy)
        for name in ("running", "pending"):
            assert after[name] == before[name]

    load.run("easy:backfill=merit", forecast=wrong(factors), on_cycle=there_and_back)
