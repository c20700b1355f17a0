"""Preemption: victims, rules and cost."""

from __future__ import annotations

import pytest

from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.decision import Preempt
from gpusquad.model.job import Checkpoint, Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob


def job(name: str, gpus: int, run_s: int, at_s: int = 0, **rest) -> TraceJob:
    request = Request(gpus=gpus)
    return TraceJob(Job(name, (Role("w", 1, request),), submitted_us=at_s * US_PER_S, **rest), run_s * US_PER_S)


def run(jobs: list[TraceJob], cluster: str = "1x8", **rest) -> SimulationResult:
    policies = make_policies(rest.pop("order", "fifo"), "easy", "binpack", **rest)
    return simulate(Scenario(grid(cluster), jobs, policies, exact))


def times(result: SimulationResult, name: str) -> tuple[float, float]:
    outcome = next(o for o in result.outcomes if o.job.id == name)
    assert outcome.started_us is not None
    assert outcome.ended_us is not None
    return outcome.started_us / US_PER_S, outcome.ended_us / US_PER_S


ONE_LANE = (Lane("all"),)
PRIORITY = PreemptionConfig(by="priority")


def test_higher_priority_preempts_and_the_victim_resumes_from_its_checkpoint() -> None:
    victim = job("victim", 8, 1000, checkpoint=Checkpoint(every_us=100 * US_PER_S, restart_us=10 * US_PER_S))
    high_priority = job("boss", 8, 50, at_s=250, priority="high")
    result = run([victim, high_priority], preemption=PRIORITY, lanes=ONE_LANE)
    assert times(result, "boss") == (250, 300)
    assert times(result, "victim")[1] == 300 + 10 + 800  # the checkpoint kept 200 of 250 s
    outcome = next(o for o in result.outcomes if o.job.id == "victim")
    assert outcome.lost_us == 50 * US_PER_S
    assert [span.cut for span in outcome.spans] == ["preempted", ""]


def test_victim_without_checkpoint_loses_all_work() -> None:
    result = run([job("victim", 8, 1000), job("boss", 8, 50, at_s=250, priority="high")],
                 preemption=PRIORITY, lanes=ONE_LANE)  # fmt: skip
    assert times(result, "victim")[1] == 300 + 1000


def test_cheapest_sufficient_victim_is_preempted() -> None:
    expensive = job("dear", 4, 1000)
    cheap = job("cheap", 4, 1000, at_s=100)
    high_priority = job("boss", 4, 50, at_s=200, priority="high")
    result = run([expensive, cheap, high_priority], preemption=PRIORITY, lanes=ONE_LANE)
    assert times(result, "dear")[1] == 1000
    assert times(result, "boss")[0] == 200


def test_no_job_is_preempted_when_it_would_not_help() -> None:
    fixed = job("fixed", 4, 1000, checkpoint=Checkpoint(preemptible=False))
    other = job("other", 4, 1000)
    high_priority = job("boss", 8, 50, at_s=200, priority="high")
    result = run([fixed, other, high_priority], preemption=PRIORITY, lanes=ONE_LANE)
    assert times(result, "other")[1] == 1000
    assert times(result, "boss")[0] == 1000


def test_only_jobs_of_preemptible_lanes_are_preempted() -> None:
    small, high_priority = job("small", 4, 1000), job("boss", 8, 50, at_s=200, priority="high")
    small_preemptible = (Lane("large", min_gpus=8, preemptible=False), Lane("small", preemptible=True))
    large_preemptible = (Lane("large", min_gpus=8, preemptible=True), Lane("small", preemptible=False))
    assert times(run([small, high_priority], preemption=PRIORITY, lanes=small_preemptible), "boss")[0] == 200
    assert times(run([small, high_priority], preemption=PRIORITY, lanes=large_preemptible), "boss")[0] == 1000


def test_srpt_preempts_for_a_shorter_job_only() -> None:
    policy = {"order": "srpt", "preemption": PreemptionConfig(by="order"), "lanes": ONE_LANE}
    long = job("long", 8, 1000, checkpoint=Checkpoint(every_us=US_PER_S))
    assert times(run([long, job("short", 8, 10, at_s=100)], **policy), "short")[0] == 100
    assert times(run([long, job("longer", 8, 2000, at_s=100)], **policy), "longer")[0] == 1000


def test_borrowed_gpus_are_reclaimed_after_reclaim_s_and_no_more_than_needed() -> None:
    tenants = (TenantQuota("a", guaranteed_gpus=4, reclaim_s=60), TenantQuota("b", guaranteed_gpus=4))
    borrowers = [job(f"b{i}", 2, 1000, tenant="b") for i in range(4)]
    result = run([*borrowers, job("a1", 4, 50, at_s=100, tenant="a")], tenants=tenants)
    assert times(result, "a1")[0] == 160
    untouched = [o for o in result.outcomes if o.job.tenant == "b" and len(o.spans) == 1]
    assert len(untouched) == 2


def test_tenant_above_its_guarantee_cannot_reclaim() -> None:
    tenants = (TenantQuota("a", guaranteed_gpus=2, reclaim_s=60), TenantQuota("b", guaranteed_gpus=4))
    result = run([job("b1", 8, 1000, tenant="b"), job("a1", 4, 50, at_s=100, tenant="a")], tenants=tenants)
    assert times(result, "a1")[0] == 1000


def test_tenant_limit_holds_within_one_cycle_and_blocks_no_other_tenant() -> None:
    tenants = (TenantQuota("a", limit_gpus=2),)
    jobs = [job("a1", 2, 100, tenant="a"), job("a2", 2, 100, tenant="a"), job("b1", 6, 100, at_s=1, tenant="b")]
    result = run(jobs, tenants=tenants)
    assert times(result, "a2")[0] == 100
    assert times(result, "b1")[0] == 1


@pytest.mark.parametrize(("gpus", "cards"), [(8, "8 cards"), (1, "1 card")])
def test_preemption_decision_gives_victim_beneficiary_cause_and_cost(gpus: int, cards: str) -> None:
    from gpusquad.core.driver import Driver
    from gpusquad.core.ports import JobSubmitted
    from gpusquad.core.state.state import SchedulerState

    state = SchedulerState(grid(f"1x{gpus}"), make_policies(preemption=PRIORITY, lanes=ONE_LANE))
    driver = Driver(state, lambda now_us, decisions: None)
    victim, high_priority = job("victim", gpus, 1000), job("boss", gpus, 50, priority="high")
    driver.apply(0, JobSubmitted(victim.job, exact(victim)))
    driver.decide(0)
    driver.apply(100 * US_PER_S, JobSubmitted(high_priority.job, exact(high_priority)))
    (decision,) = driver.decide(100 * US_PER_S)
    assert isinstance(decision, Preempt)
    assert (decision.job_id, decision.for_job) == ("victim", "boss")
    assert f"priority: {cards} for boss" in decision.cause
    assert "2m" in decision.cause


def test_job_is_stopped_at_its_time_limit() -> None:
    limited = job("limited", 8, 1000, limit_us=100 * US_PER_S)
    result = run([limited, job("next", 8, 10, at_s=1)])
    assert times(result, "limited")[1] == 100
    assert times(result, "next")[0] == 100
    assert next(o for o in result.outcomes if o.job.id == "limited").end == "timed_out"
