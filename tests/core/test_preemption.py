"""Preemption: who is pushed off, by which rule, at what cost."""

from __future__ import annotations

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


def test_a_higher_class_takes_the_cards_and_the_victim_resumes_from_its_checkpoint() -> None:
    victim = job("victim", 8, 1000, checkpoint=Checkpoint(every_us=100 * US_PER_S, restart_us=10 * US_PER_S))
    boss = job("boss", 8, 50, at_s=250, priority="high")
    result = run([victim, boss], preemption=PRIORITY, lanes=ONE_LANE)
    assert times(result, "boss") == (250, 300)
    assert times(result, "victim")[1] == 300 + 10 + 800  # 200 of 250 s were kept
    outcome = next(o for o in result.outcomes if o.job.id == "victim")
    assert outcome.lost_us == 50 * US_PER_S
    assert [span.cut for span in outcome.spans] == ["preempted", ""]


def test_without_checkpoint_all_work_is_lost() -> None:
    result = run([job("victim", 8, 1000), job("boss", 8, 50, at_s=250, priority="high")],
                 preemption=PRIORITY, lanes=ONE_LANE)  # fmt: skip
    assert times(result, "victim")[1] == 300 + 1000


def test_the_cheapest_victim_that_is_enough_is_taken() -> None:
    dear = job("dear", 4, 1000)
    cheap = job("cheap", 4, 1000, at_s=100)
    boss = job("boss", 4, 50, at_s=200, priority="high")
    result = run([dear, cheap, boss], preemption=PRIORITY, lanes=ONE_LANE)
    assert times(result, "dear")[1] == 1000
    assert times(result, "boss")[0] == 200


def test_nobody_is_pushed_off_when_it_would_not_help() -> None:
    fixed = job("fixed", 4, 1000, checkpoint=Checkpoint(preemptible=False))
    other = job("other", 4, 1000)
    boss = job("boss", 8, 50, at_s=200, priority="high")
    result = run([fixed, other, boss], preemption=PRIORITY, lanes=ONE_LANE)
    assert times(result, "other")[1] == 1000
    assert times(result, "boss")[0] == 1000


def test_which_lane_gives_way_is_a_parameter() -> None:
    small, boss = job("small", 4, 1000), job("boss", 8, 50, at_s=200, priority="high")
    giving = (Lane("large", min_gpus=8, preemptible=False), Lane("small", preemptible=True))
    staying = (Lane("large", min_gpus=8, preemptible=True), Lane("small", preemptible=False))
    assert times(run([small, boss], preemption=PRIORITY, lanes=giving), "boss")[0] == 200
    assert times(run([small, boss], preemption=PRIORITY, lanes=staying), "boss")[0] == 1000


def test_a_shorter_job_preempts_under_srpt_and_a_longer_one_does_not() -> None:
    policy = {"order": "srpt", "preemption": PreemptionConfig(by="order"), "lanes": ONE_LANE}
    long = job("long", 8, 1000, checkpoint=Checkpoint(every_us=US_PER_S))
    assert times(run([long, job("short", 8, 10, at_s=100)], **policy), "short")[0] == 100
    assert times(run([long, job("longer", 8, 2000, at_s=100)], **policy), "longer")[0] == 1000


def test_a_borrower_pays_back_within_the_stated_time_and_no_more_than_it_borrowed() -> None:
    tenants = (TenantQuota("a", guaranteed_gpus=4, reclaim_s=60), TenantQuota("b", guaranteed_gpus=4))
    b_jobs = [job(f"b{i}", 2, 1000, tenant="b") for i in range(4)]
    result = run([*b_jobs, job("a1", 4, 50, at_s=100, tenant="a")], tenants=tenants)
    assert times(result, "a1")[0] == 160
    untouched = [o for o in result.outcomes if o.job.tenant == "b" and len(o.spans) == 1]
    assert len(untouched) == 2


def test_a_tenant_over_its_guarantee_waits_like_everybody() -> None:
    tenants = (TenantQuota("a", guaranteed_gpus=2, reclaim_s=60), TenantQuota("b", guaranteed_gpus=4))
    result = run([job("b1", 8, 1000, tenant="b"), job("a1", 4, 50, at_s=100, tenant="a")], tenants=tenants)
    assert times(result, "a1")[0] == 1000


def test_a_tenants_limit_holds_within_one_cycle_and_blocks_nobody_else() -> None:
    tenants = (TenantQuota("a", limit_gpus=2),)
    jobs = [job("a1", 2, 100, tenant="a"), job("a2", 2, 100, tenant="a"), job("b1", 6, 100, at_s=1, tenant="b")]
    result = run(jobs, tenants=tenants)
    assert times(result, "a2")[0] == 100
    assert times(result, "b1")[0] == 1


def test_a_preemption_says_who_why_and_what_it_costs() -> None:
    from gpusquad.core.driver import Driver
    from gpusquad.core.ports import JobSubmitted
    from gpusquad.core.state.state import SchedulerState

    state = SchedulerState(grid("1x8"), make_policies(preemption=PRIORITY, lanes=ONE_LANE))
    driver = Driver(state, lambda now_us, decisions: None)
    victim, boss = job("victim", 8, 1000), job("boss", 8, 50, priority="high")
    driver.apply(0, JobSubmitted(victim.job, exact(victim)))
    driver.decide(0)
    driver.apply(100 * US_PER_S, JobSubmitted(boss.job, exact(boss)))
    (decision,) = driver.decide(100 * US_PER_S)
    assert isinstance(decision, Preempt)
    assert (decision.job_id, decision.for_job) == ("victim", "boss")
    assert "priority" in decision.cause
    assert "2m" in decision.cause


def test_a_time_limit_ends_a_job_and_an_estimate_does_not() -> None:
    limited = job("limited", 8, 1000, limit_us=100 * US_PER_S)
    result = run([limited, job("next", 8, 10, at_s=1)])
    assert times(result, "limited")[1] == 100
    assert times(result, "next")[0] == 100
    assert next(o for o in result.outcomes if o.job.id == "limited").end == "timed_out"
