"""A job over a limit keeps its place under it: later jobs of its tenant or lane do not pass it again and again."""

from __future__ import annotations

import pytest

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import why
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.reasons import ReasonCode
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import user
from gpusquad.sim.traces import TraceJob
from tests.audit import audit
from tests.core.states import state_of
from tests.strategies import Load, gang, starts_s

PLANS = ["easy", "easy:backfill=shortest", "conservative"]
TENANTS = (TenantQuota("red", limit_gpus=8),)


def run(jobs: list[TraceJob], plan: str = "easy", **policies) -> SimulationResult:
    policies = {"tenants": TENANTS} | policies
    return Load(grid("4x8"), tuple(jobs)).run(policies=make_policies("fifo", plan, **policies), forecast=user,
                                              on_cycle=audit)  # fmt: skip


def small_jobs(number: int, run_s: float, estimate_s: float | None = None) -> list[TraceJob]:
    """Two-card jobs of one tenant, one per 50 s, so that the tenant always holds some cards."""
    return [
        gang(f"small{i:03}", 2, run_s, 2 + 50 * i, estimate=estimate_s or run_s, tenant="red") for i in range(number)
    ]


@pytest.mark.parametrize("plan", PLANS)
def test_wide_job_at_its_tenants_limit_is_not_passed_by_small_jobs(plan: str):
    jobs = [gang("first", 4, 300, tenant="red"), gang("wide", 8, 100, 1, tenant="red"), *small_jobs(100, 500)]
    assert starts_s(run(jobs, plan))["wide"] == 300


def test_small_job_that_ends_in_time_starts_before_the_wide_one():
    jobs = [gang("first", 4, 300, tenant="red"), gang("wide", 8, 100, 1, tenant="red"), *small_jobs(3, 100)]
    starts = starts_s(run(jobs))
    assert (starts["wide"], starts["small000"], starts["small001"]) == (300, 2, 52)


def test_small_job_that_stays_longer_uses_what_the_wide_one_leaves():
    jobs = [gang("first", 4, 300, tenant="red"), gang("wide", 6, 100, 1, tenant="red"), *small_jobs(3, 5000)]
    starts = starts_s(run(jobs))
    assert (starts["small000"], starts["wide"]) == (2, 300)
    assert (starts["small001"] or 0) >= 400


@pytest.mark.parametrize("plan", PLANS)
def test_wide_job_at_a_limit_is_late_by_one_overrun(plan: str):
    jobs = [gang("first", 4, 300, tenant="red"), gang("wide", 8, 100, 1, tenant="red"), *small_jobs(100, 1000, 60)]
    assert (starts_s(run(jobs, plan))["wide"] or 0) <= 300 + 940


def test_wide_job_at_the_limit_of_its_lane_is_not_passed():
    jobs = [gang("first", 4, 300), gang("wide", 8, 100, 1), *(gang(f"s{i}", 2, 500, 2 + 50 * i) for i in range(50))]
    assert starts_s(run(jobs, tenants=(), lanes=(Lane("all", limit_ratio=0.25),)))["wide"] == 300


def test_job_at_a_limit_holds_up_no_other_tenant():
    jobs = [gang("first", 8, 300, tenant="red"), gang("wide", 8, 100, 1, tenant="red"), gang("blue", 24, 1000, 2)]
    assert starts_s(run(jobs))["blue"] == 2


def test_reason_names_the_job_that_waits_for_the_limit():
    state = state_of(grid("4x8"), tenants=TENANTS)
    for trace in (gang("first", 4, 300, tenant="red"), gang("wide", 8, 100, tenant="red"),
                  gang("small", 2, 500, tenant="red")):  # fmt: skip
        state.enqueue(trace.job, user(trace))
    cycle(state, 0)
    reasons = why(state, "small")
    assert [r.code for r in reasons][:1] == [ReasonCode.BEHIND]
    assert "wide" in reasons[0].message
