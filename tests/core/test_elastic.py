"""Elastic gangs: start with the tasks that fit, growth and shrinking."""

from __future__ import annotations

from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Card, Cluster, Node, grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.sim.outcome import Outcome
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob


def elastic(name: str, low: int, count: int, high: int, run_s: int, at_s: int = 0) -> TraceJob:
    role = Role("w", count, Request(gpus=1), low, high)
    return TraceJob(Job(name, (role,), submitted_us=at_s * US_PER_S), run_s * US_PER_S)


def fixed(name: str, gpus: int, run_s: int, at_s: int = 0) -> TraceJob:
    return TraceJob(Job(name, (Role("w", 1, Request(gpus=gpus)),), submitted_us=at_s * US_PER_S), run_s * US_PER_S)


def run(*jobs: TraceJob) -> dict[str, Outcome]:
    result = simulate(Scenario(grid("1x8"), jobs, make_policies(), exact))
    return {outcome.job.id: outcome for outcome in result.outcomes}


def sizes(outcome: Outcome) -> list[int]:
    return [len(span.cards) for span in outcome.spans]


def end_s(outcome: Outcome) -> float:
    assert outcome.ended_us is not None
    return outcome.ended_us / US_PER_S


def test_elastic_gang_starts_with_as_many_tasks_as_fit() -> None:
    outcomes = run(fixed("f", 6, 100), elastic("e", 1, 4, 4, 100))
    assert sizes(outcomes["e"])[0] == 2


def test_elastic_gang_uses_its_maximum_and_runs_faster_when_alone() -> None:
    outcomes = run(elastic("e", 1, 4, 8, 100))
    assert sizes(outcomes["e"]) == [8]
    assert end_s(outcomes["e"]) == 50


def test_elastic_gang_grows_when_cards_become_free_and_no_job_waits() -> None:
    outcomes = run(fixed("f", 6, 100), elastic("e", 1, 4, 8, 100))
    assert sizes(outcomes["e"]) == [2, 8]
    assert end_s(outcomes["e"]) == 100 + 25  # half done on two of four tasks, the rest on eight


def test_elastic_gang_shrinks_for_a_pending_job_and_grows_back() -> None:
    outcomes = run(elastic("e", 2, 4, 8, 100), fixed("f", 6, 10, at_s=10))
    assert outcomes["f"].wait_us == 0
    assert sizes(outcomes["e"]) == [8, 2, 8]
    assert end_s(outcomes["e"]) == 10 + 10 + (100 - 20 - 5) / 2


def test_elastic_gang_keeps_its_cards_when_shrinking_would_not_help() -> None:
    outcomes = run(fixed("f", 4, 100), elastic("e", 2, 4, 4, 50), fixed("big", 8, 10, at_s=1))
    assert sizes(outcomes["e"]) == [4]


def test_elastic_gang_stays_within_the_limit_of_its_tenant() -> None:
    policies = make_policies(tenants=(TenantQuota("default", limit_gpus=4),))
    result = simulate(Scenario(grid("1x8"), [elastic("e", 1, 4, 8, 100)], policies, exact))
    assert sizes(result.outcomes[0]) == [4]


def test_gang_is_placed_when_only_another_order_of_its_shapes_fits() -> None:
    nodes = (Node("n0", (Card("a"),), 1000), Node("n1", (Card("b"),), 500))
    roles = (Role("gpu", 1, Request(gpus=1, cpu_milli=100)), Role("cpu", 1, Request(cpu_milli=1000)))
    trace = TraceJob(Job("j", roles), 10 * US_PER_S)
    result = simulate(Scenario(Cluster(nodes), [trace], make_policies(), exact))
    assert result.outcomes[0].end == "succeeded"
