"""Which later jobs went ahead of a pending one by a right, and by which."""

from __future__ import annotations

from typing import Any

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.passed import passed_by
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.core.state.state import UNKNOWN, SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request
from gpusquad.model.units import US_PER_S
from tests.core.states import job as job_of
from tests.core.states import submit


def state_with(order: str = "fifo", cards: int = 2, **rest: Any) -> SchedulerState:
    return SchedulerState(grid(f"1x{cards}"), make_policies(order, "easy", "binpack", **rest), ())


def job(name: str, at_s: int, gpus: int = 2, **rest: Any) -> Job:
    return job_of(name, Request(gpus), submitted_us=at_s * US_PER_S, **rest)


def rights(state: SchedulerState, job_id: str) -> list[tuple[str, str, str]]:
    return [(one.job.id, one.by, one.value) for one in passed_by(state, job_id)]


def queued(order: str, *jobs: Job, hours: float = 1, **rest: Any) -> SchedulerState:
    """Behind a run that holds all cards."""
    state = state_with(order, **rest)
    submit(state, job("run", 0))
    for each in jobs:
        state.now_us = each.submitted_us
        submit(state, each, hours=hours)
    return state


def test_priority_is_named_with_its_value():
    state = queued("fifo", job("mine", 1), job("same", 2), job("urgent", 3, priority="urgent"),
                   job("more", 4, priority="2000000"))  # fmt: skip
    assert rights(state, "mine") == [("more", "priority", "2000000"), ("urgent", "priority", "urgent")]
    assert rights(state, "urgent") == [("more", "priority", "2000000")]
    assert rights(state, "more") == []


def test_job_that_became_eligible_later_is_named():
    held = job("held", 1, priority="urgent", held_until_us=3 * US_PER_S)
    assert rights(queued("fifo", held, job("mine", 2)), "mine") == [("held", "priority", "urgent")]


def test_priority_that_the_order_does_not_use_passes_nobody():
    high = job("high", 2, priority="high")
    assert rights(queued("fifo", job("mine", 1), high), "mine") == []
    assert rights(queued("urgent", job("mine", 1), high), "mine") == [("high", "priority", "high")]


def test_running_job_that_started_first_is_named():
    state = queued("fifo", job("mine", 1), job("urgent", 2, priority="urgent"))
    state.finish("run")
    cycle(state, state.now_us)
    assert [(one.job.id, one.is_running) for one in passed_by(state, "mine")] == [("urgent", True)]


def test_backfilled_job_is_not_named():
    state = state_with(cards=4)
    submit(state, job("run", 0, 3))
    state.now_us = US_PER_S
    submit(state, job("mine", 1, 4))
    submit(state, job("guest", 1, 1), hours=0.1)
    assert "guest" in state.runs
    assert rights(state, "mine") == []


def test_jobs_ahead_by_the_order_have_no_right():
    state = queued("sjf", job("mine", 1), hours=2)
    submit(state, job("short", 2, priority="high"), hours=0.1)
    assert rights(state, "mine") == []


def test_guarantee_that_reclaims_is_named():
    quotas = (TenantQuota("team", guaranteed_gpus=2, reclaim_s=0),)
    state = queued("fifo", job("mine", 1, tenant="other"), tenants=quotas)
    state.now_us = 10 * US_PER_S
    submit(state, job("theirs", 10, tenant="team"))
    assert state.claims == {"theirs": "reclaim"}
    assert rights(state, "mine") == [("theirs", "guarantee", "team")]


def test_job_that_preempts_for_its_priority_is_named():
    state = queued("fifo", job("mine", 1), preemption=PreemptionConfig(by="priority", min_run_s=0))
    state.now_us = 10 * US_PER_S
    submit(state, job("high", 10, priority="high"))
    assert state.claims == {"high": "priority"}
    assert rights(state, "mine") == [("high", "priority", "high")]


def test_other_lane_is_named_when_the_own_one_is_full():
    lanes = (Lane("few", priorities=("low",), limit_ratio=0.5), Lane("rest"))
    state = state_with(cards=4, lanes=lanes)
    submit(state, job("first", 0, priority="low"))
    state.now_us = US_PER_S
    submit(state, job("mine", 1, priority="low"))
    state.now_us = 2 * US_PER_S
    submit(state, job("other", 2, 1, priority="low", lane="rest"))
    assert "other" in state.runs
    assert rights(state, "mine") == [("other", "lane", "rest")]


def test_unknown_and_running_jobs_have_no_answer():
    state = queued("fifo", job("mine", 1))
    assert passed_by(state, "run") == passed_by(state, "nobody") == []


def test_tenants_with_less_usage_are_named_by_fair_share():
    """Until the job holds the reservation."""
    state = state_with("fairshare")
    submit(state, job("run", 0, tenant="heavy"))
    for name, at_s, tenant in (("mine", 7200, "heavy"), ("same", 7201, "heavy"), ("theirs", 7202, "light")):
        state.now_us = at_s * US_PER_S
        state.enqueue(job(name, at_s, tenant=tenant), UNKNOWN)
        state.resort()
    reason = "its tenant has used less lately, by weight"
    assert rights(state, "mine") == [("theirs", "fair share", reason)]
    assert rights(state, "theirs") == []
    state.finish("run")
    cycle(state, state.now_us)
    assert "theirs" in state.runs
    assert rights(state, "mine") == [("theirs", "fair share", reason)]
    state.keep_place("mine", state.now_us - 2)
    assert rights(state, "mine") == []
