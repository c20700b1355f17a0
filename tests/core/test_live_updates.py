"""Changes while jobs run: adopted gangs, updated jobs, other policies, maintenance windows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.core.driver import Driver
from gpusquad.core.ports import (
    GangAdopted,
    GangEnded,
    GangStopping,
    JobCancelled,
    JobSubmitted,
    JobUpdated,
    PoliciesChanged,
    WindowsChanged,
)
from gpusquad.core.state.live_updates import adopt, past_of, with_policies
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.transitions import WrongTransition
from gpusquad.model.cluster import MaintenanceWindow, grid
from gpusquad.model.decision import Start, Stop
from gpusquad.model.job import Job, Request, Role, Share
from gpusquad.model.views import RunTimePrediction

HOUR_US = 3_600_000_000


def make_job(name: str, gpus: int = 1, **rest) -> Job:
    share = rest.pop("share", None)
    request = Request(share=share) if share else Request(gpus=gpus, cpu_milli=1000)
    return Job(name, (Role("task", rest.pop("count", 1), request),), **rest)


def started(driver: Driver, *jobs: Job, run_us: int = HOUR_US) -> list[str]:
    for job in jobs:
        driver.apply(0, JobSubmitted(job, RunTimePrediction(run_us, run_us, "user")))
    return [d.job_id for d in driver.decide(0) if isinstance(d, Start)]


def make_driver(cluster: str = "2x4", **policies) -> Driver:
    return Driver(SchedulerState(grid(cluster), make_policies(**policies)), lambda now_us, decisions: None)


def same_space(first: SchedulerState, other: SchedulerState) -> None:
    for name in ("card_idle", "card_memory_free", "card_sm_free", "card_slots_free", "node_cpu_free", "node_idle",
                 "card_ok", "node_up"):  # fmt: skip
        assert np.array_equal(getattr(first.space, name), getattr(other.space, name)), name
    for tenant, held in first.accounts.held.items():
        assert other.accounts.of(tenant).gpus == held.gpus


job_rows = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 2), st.sampled_from(["a", "b"]), st.booleans()), min_size=1, max_size=12
)


def jobs_of(rows) -> list[Job]:
    return [
        make_job(f"j{i}", gpus, count=count, tenant=tenant, share=Share(2**30, 250) if shares else None)
        for i, (gpus, count, tenant, shares) in enumerate(rows)
    ]


@given(job_rows)
@settings(max_examples=50)
def test_adopted_gangs_hold_the_same_capacity_as_before(rows) -> None:
    driver = make_driver()
    started(driver, *jobs_of(rows))
    restarted = Driver(SchedulerState(grid("2x4"), make_policies()), lambda now_us, decisions: None)
    for run in driver.state.runs.by_id.values():
        restarted.apply(0, GangAdopted(run.job, run.prediction, run.placement, run.started_us, past_of(run)))
    for waiting in driver.state.queue:
        restarted.apply(0, JobSubmitted(waiting.job, waiting.prediction, past_of(waiting)))
    same_space(driver.state, restarted.state)
    assert [w.job.id for w in restarted.state.queue] == [w.job.id for w in driver.state.queue]
    assert not [d for d in restarted.decide(0) if isinstance(d, Start)]
    for job_id in list(restarted.state.runs.by_id):
        restarted.apply(1, GangEnded(job_id, "succeeded"))
    assert restarted.state.space.card_idle.all()


@given(job_rows, st.sampled_from(["fifo", "sjf", "drf"]), st.sampled_from(["easy", "none", "conservative"]))
@settings(max_examples=50)
def test_policy_change_keeps_running_and_pending_jobs(rows, order, plan) -> None:
    driver = make_driver()
    started(driver, *jobs_of(rows))
    driver.state.space.set_card_ok(3, False)
    before = driver.state
    driver.apply(5, PoliciesChanged(make_policies(order, plan, "balance")))
    same_space(before, driver.state)
    assert set(driver.state.runs.by_id) == set(before.runs.by_id)
    assert {w.job.id for w in driver.state.queue} == {w.job.id for w in before.queue}
    driver.decide(5)
    for job_id in list(driver.state.runs.by_id):
        driver.apply(6, GangEnded(job_id, "succeeded"))
    while [d for d in driver.decide(6) if isinstance(d, Start)]:
        for job_id in list(driver.state.runs.by_id):
            driver.apply(6, GangEnded(job_id, "succeeded"))
    assert not len(driver.state.runs)


def test_new_order_policy_applies_to_jobs_already_pending() -> None:
    driver = make_driver("1x1", plan="none")
    started(driver, make_job("first"))
    for name, run_us in (("long", 2 * HOUR_US), ("short", 60_000_000)):
        driver.apply(1, JobSubmitted(make_job(name, submitted_us=1), RunTimePrediction(run_us, run_us, "user")))
    driver.decide(1)
    driver.apply(2, PoliciesChanged(make_policies("sjf", "none")))
    driver.apply(3, GangEnded("first", "succeeded"))
    assert [d.job_id for d in driver.decide(3)] == ["short"]


def test_pending_job_made_urgent_goes_first() -> None:
    driver = make_driver("1x1")
    started(driver, make_job("first"), make_job("second"), make_job("third"))
    driver.apply(1, JobUpdated(replace(make_job("third"), priority="urgent")))
    driver.apply(2, GangEnded("first", "succeeded"))
    assert [d.job_id for d in driver.decide(2)] == ["third"]


def test_running_job_is_stopped_by_a_new_time_limit() -> None:
    driver = make_driver("1x2")
    assert started(driver, make_job("one", share=Share(2**30, 500)), make_job("two")) == ["one", "two"]
    driver.apply(1, JobUpdated(replace(make_job("one", share=Share(2**30, 500)), limit_us=10)))
    assert [d for d in driver.decide(9) if isinstance(d, Stop)] == []
    assert [d.job_id for d in driver.decide(11) if isinstance(d, Stop)] == ["one"]
    driver.apply(12, GangEnded("one", "timed_out"))
    assert driver.state.space.card_idle.sum() == 1


def test_gang_that_is_already_stopping_is_not_stopped_again() -> None:
    driver = make_driver("1x1")
    started(driver, replace(make_job("one"), limit_us=10))
    driver.apply(1, GangStopping("one"))
    assert driver.decide(20) == []
    driver.apply(21, GangEnded("one", "cancelled"))
    assert "one" not in driver.state.runs
    assert "one" not in driver.state.queue


def test_held_gang_is_submitted_again_with_its_attempt_number() -> None:
    driver = make_driver("1x1")
    started(driver, make_job("one"))
    past = past_of(driver.state.runs["one"])
    driver.apply(1, GangEnded("one", "held"))
    assert driver.decide(1) == []
    driver.forget("one")
    driver.apply(2, JobSubmitted(make_job("one"), RunTimePrediction(1, 1, "user"), replace(past, attempt=1)))
    assert [d.job_id for d in driver.decide(2)] == ["one"]
    assert driver.state.runs["one"].attempt == 1


def test_new_maintenance_window_blocks_jobs_that_would_run_into_it() -> None:
    driver = make_driver("1x2")
    started(driver, make_job("one"))
    driver.apply(1, WindowsChanged((MaintenanceWindow("w", ("n0",), 60, None),)))
    driver.apply(1, JobSubmitted(make_job("two", submitted_us=1), RunTimePrediction(HOUR_US, HOUR_US, "user")))
    assert driver.decide(1) == []
    driver.apply(2, WindowsChanged(()))
    assert [d.job_id for d in driver.decide(2)] == ["two"]


def test_gang_does_not_grow_when_the_engine_cannot_resize() -> None:
    state = SchedulerState(grid("1x4"), make_policies())
    state.resizes = False
    driver = Driver(state, lambda now_us, decisions: None)
    elastic = Job("e", (Role("task", 1, Request(gpus=1), 1, 4),))
    driver.apply(0, JobSubmitted(make_job("other", 3), RunTimePrediction(10, 10, "user")))
    driver.apply(0, JobSubmitted(elastic, RunTimePrediction(HOUR_US, HOUR_US, "user")))
    driver.decide(0)
    driver.apply(10, GangEnded("other", "succeeded"))
    assert driver.decide(10) == []
    assert with_policies(driver.state, make_policies()).resizes is False


def test_sequence_numbers_continue_after_an_adopted_gang() -> None:
    driver = make_driver("1x1")
    job = make_job("old")
    started(driver, job)
    run = driver.state.runs["old"]
    other = SchedulerState(grid("1x1"), make_policies())
    adopt(other, GangAdopted(job, run.prediction, run.placement, 0, replace(past_of(run), sequence=41)))
    assert other.enqueue(make_job("new"), run.prediction).sequence == 42


def test_stopping_gang_past_its_limit_causes_no_wake() -> None:
    driver = make_driver("1x2")
    started(driver, make_job("one", limit_us=10), make_job("two", limit_us=50))
    assert driver.next_wake_us() == 10
    assert [d.job_id for d in driver.decide(10)] == ["one"]
    assert driver.next_wake_us() == 50


def test_lost_gang_starts_again() -> None:
    driver = make_driver("1x1")
    started(driver, make_job("one"))
    driver.apply(1, GangEnded("one", "lost"))
    assert [d.job_id for d in driver.decide(1)] == ["one"]


def test_refused_job_cancelled_before_the_cycle_causes_no_decision() -> None:
    driver = make_driver("1x1")
    driver.apply(0, JobSubmitted(make_job("large", 2), RunTimePrediction(1, 1, "user")))
    driver.apply(0, JobCancelled("large"))
    assert driver.decide(0) == []


def test_elastic_gang_adopted_with_fewer_tasks_is_predicted_to_end_later() -> None:
    job = Job("e", (Role("task", 4, Request(gpus=1), 1, 4),))
    driver = make_driver("1x2")
    started(driver, job, run_us=100)
    run = driver.state.runs["e"]
    assert run.end_us == 200
    restarted = SchedulerState(grid("1x2"), make_policies())
    assert adopt(restarted, GangAdopted(job, run.prediction, run.placement, 0, past_of(run))).end_us == 200
    driver.apply(0, JobUpdated(job, RunTimePrediction(50, 50, "user")))
    assert driver.state.runs["e"].end_us == 100


def test_driver_rejects_a_job_that_is_already_pending_or_running() -> None:
    driver = make_driver("1x1")
    started(driver, make_job("runs"))
    driver.apply(1, JobSubmitted(make_job("waits"), RunTimePrediction(1, 1, "user")))
    for job_id in ("runs", "waits"):
        with pytest.raises(WrongTransition, match=f"job {job_id} is already pending or running"):
            driver.apply(2, JobSubmitted(make_job(job_id), RunTimePrediction(1, 1, "user")))


def test_sink_gets_the_decisions_of_every_cycle() -> None:
    passed: list[tuple[int, list[str]]] = []
    driver = Driver(
        SchedulerState(grid("1x1"), make_policies()),
        lambda now_us, decisions: passed.append((now_us, [decision.job_id for decision in decisions])),
    )
    driver.apply(0, JobSubmitted(make_job("one"), RunTimePrediction(1, 1, "user")))
    driver.decide(0)
    driver.decide(1)
    assert passed == [(0, ["one"]), (1, [])]
