"""Victims: the set that loses the least work, and what a lane lets its jobs lose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.driver import Driver
from gpusquad.core.planning.victims import PreemptionRule, choose_victims, lost_us
from gpusquad.core.ports import JobSubmitted
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.decision import Preempt
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Checkpoint, Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob
from tests.strategies import examples

HOUR_S = 3600
PRIORITY = PreemptionConfig(by="priority")
LIMITED = (Lane("all", max_lost_s=60),)


def trace(name: str, gpus: int, run_s: int, at_s: int = 0, tasks: int = 1, **rest) -> TraceJob:
    roles = (Role("w", tasks, Request(gpus=gpus)),)
    return TraceJob(Job(name, roles, submitted_us=at_s * US_PER_S, **rest), run_s * US_PER_S)


def run(jobs: list[TraceJob], cluster: str = "1x8", suspends: bool = False, **rest) -> SimulationResult:
    policies = make_policies("fifo", "easy", "binpack", preemption=PRIORITY, **rest)
    return simulate(Scenario(grid(cluster), jobs, policies, exact, suspends=suspends))


def started_s(result: SimulationResult, name: str) -> float:
    outcome = next(o for o in result.outcomes if o.job.id == name)
    assert outcome.started_us is not None
    return outcome.started_us / US_PER_S


def preempted(result: SimulationResult, at_s: int) -> set[str]:
    return {
        o.job.id
        for o in result.outcomes
        if any(span.cut == "preempted" and span.ended_us == at_s * US_PER_S for span in o.spans)
    }


# -- the least work lost --------------------------------------------------------------------------------------------

runs = st.tuples(
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 9),
    st.sampled_from([None, 2, 5]),
    st.sampled_from([0, 1]),
    st.sampled_from(["low", "normal"]),
)
"""GPUs of each task, tasks, start, checkpoint interval, restart, priority."""


def state_with(cluster: str, rows: list[tuple], suspends: bool) -> SchedulerState:
    """A state at 10 s in which as many of these gangs run as fit."""
    state = SchedulerState(grid(cluster), make_policies(lanes=(Lane("all"),)))
    state.suspends = suspends
    driver = Driver(state, lambda now_us, decisions: None)
    for number, (gpus, tasks, at_s, every_s, restart_s, priority) in sorted(enumerate(rows), key=lambda r: r[1][2]):
        checkpoint = Checkpoint(every_us=every_s and every_s * US_PER_S, restart_us=restart_s * US_PER_S)
        job = trace(f"r{number}", gpus, 1000, at_s, tasks, checkpoint=checkpoint, priority=priority).job
        driver.apply(at_s * US_PER_S, JobSubmitted(job, RunTimePrediction(1000 * US_PER_S, 1000 * US_PER_S)))
        driver.decide(at_s * US_PER_S)
    state.now_us = 10 * US_PER_S
    for waiting in list(state.queue):
        state.withdraw(waiting.job.id)
    return state


def cost_of(state: SchedulerState, victims: list[Run]) -> tuple[int, int]:
    return sum(lost_us(state, run) * run.job.gpus for run in victims), len(victims)


@examples(150)
@given(
    cluster=st.sampled_from(["1x4", "2x3", "3x2"]),
    rows=st.lists(runs, min_size=1, max_size=6),
    gpus=st.integers(1, 4),
    tasks=st.integers(1, 3),
    suspends=st.booleans(),
    spare=st.sampled_from([None, 1, 3]),
)
def test_no_allowed_set_of_victims_loses_less_or_has_fewer_members(
    cluster: str, rows: list[tuple], gpus: int, tasks: int, suspends: bool, spare: int | None
):
    state = state_with(cluster, rows, suspends)
    job = trace("boss", gpus, 10, tasks=tasks).job
    state.enqueue(job, RunTimePrediction(US_PER_S, US_PER_S))
    waiting = state.queue["boss"]
    all_runs = list(state.runs.by_id.values())
    if state.space.fits(job):
        return

    def allows(victims: Sequence[Run]) -> bool:
        cards = [run.job.gpus for run in victims]
        return spare is None or sum(cards) - max(cards) < spare

    chosen = choose_victims(state, waiting, PreemptionRule("priority", all_runs, allows))
    sets = [list(some) for size in range(1, len(all_runs) + 1) for some in combinations(all_runs, size)]
    enough = [some for some in sets if allows(some) and _suffices(state, job, some)]
    lowest = min((max(run.job.priority_level for run in some) for some in enough), default=0)
    enough = [some for some in enough if all(run.job.priority_level <= lowest for run in some)]
    assert bool(chosen) == bool(enough)
    if chosen:
        assert sorted(chosen, key=all_runs.index) in enough
        assert cost_of(state, chosen) == min(cost_of(state, some) for some in enough)


def _suffices(state: SchedulerState, job: Job, victims: list[Run]) -> bool:
    space = state.space.copy()
    for victim in victims:
        space.release(victim.job, victim.placement)
    return space.fits(job)


def test_one_victim_that_loses_less_is_preferred_to_a_node_of_small_ones():
    """By work lost per job, the eight small ones come first."""
    smalls = [trace(f"s{i}", 1, 10_000) for i in range(8)]
    large = trace("large", 8, 10_000, at_s=500)
    result = run([*smalls, large, trace("boss", 8, 10, at_s=600, priority="high")], "2x8", lanes=(Lane("all"),))
    assert preempted(result, 600) == {"large"}


def test_fewest_victims_are_preempted_where_the_engine_suspends():
    """Then ``old`` asked first, and takes the cards of the others without loss."""
    old, new = trace("old", 8, 10_000), trace("new", 4, 10_000, at_s=500)
    also_new = trace("also-new", 4, 10_000, at_s=500)
    boss = trace("boss", 8, 10, at_s=600, priority="high")
    jobs = [old, new, also_new, boss]
    assert preempted(run(jobs, "2x8", lanes=(Lane("all"),)), 600) == {"new", "also-new"}
    suspended = run(jobs, "2x8", suspends=True, lanes=(Lane("all"),))
    spans = {o.job.id: o.spans for o in suspended.outcomes}
    assert set(spans["boss"][0].cards) == set(spans["old"][0].cards)
    assert not any(span.cut for span in spans["boss"])
    assert sum(o.lost_us for o in suspended.outcomes) == 0


# -- what a lane lets its jobs lose ---------------------------------------------------------------------------------


def test_limited_lane_waits_for_the_next_checkpoint():
    victim = trace("victim", 8, 10 * HOUR_S, checkpoint=Checkpoint(every_us=HOUR_S * US_PER_S))
    boss = trace("boss", 8, 10, at_s=HOUR_S // 2, priority="high")
    result = run([victim, boss], lanes=LIMITED)
    assert started_s(result, "boss") == HOUR_S
    assert sum(o.lost_us for o in result.outcomes) == 0


def test_limited_lane_lets_a_job_go_shortly_after_its_checkpoint():
    victim = trace("victim", 8, 10 * HOUR_S, checkpoint=Checkpoint(every_us=HOUR_S * US_PER_S))
    boss = trace("boss", 8, 10, at_s=HOUR_S + 50, priority="high")
    assert started_s(run([victim, boss], lanes=LIMITED), "boss") == HOUR_S + 50


@pytest.mark.parametrize(("suspends", "at_s"), [(False, 1000), (True, 100)])
def test_limited_lane_keeps_jobs_without_checkpoints_unless_they_can_be_suspended(suspends: bool, at_s: int):
    jobs = [trace("victim", 8, 1000), trace("boss", 8, 10, at_s=100, priority="high")]
    result = run(jobs, suspends=suspends, lanes=LIMITED)
    assert started_s(result, "boss") == at_s
    assert sum(o.lost_us for o in result.outcomes) == 0


def test_lane_with_a_negative_limit_is_refused():
    with pytest.raises(Invalid, match="max_lost_s"):
        Lane("all", max_lost_s=-1)


def test_decision_says_what_the_victim_loses_when_it_is_suspended():
    state = SchedulerState(grid("1x1"), make_policies(preemption=PRIORITY, lanes=LIMITED))
    state.suspends = True
    driver = Driver(state, lambda now_us, decisions: None)
    for at_s, job in ((0, trace("victim", 1, 1000).job), (100, trace("boss", 1, 10, priority="high").job)):
        driver.apply(at_s * US_PER_S, JobSubmitted(job, RunTimePrediction(US_PER_S, US_PER_S)))
        decisions = driver.decide(at_s * US_PER_S)
    (decision,) = decisions
    assert isinstance(decision, Preempt)
    assert decision.cause == "priority: 1 card for boss; it loses no work"


# -- who may preempt ------------------------------------------------------------------------------------------------


def test_job_does_not_preempt_past_one_of_its_priority_that_asked_first():
    """The head waits for ``kept`` and the low job, which would come back after ``later``."""
    kept = trace("kept", 4, 1000, checkpoint=Checkpoint(preemptible=False))
    low = trace("low", 4, 1000, priority="low")
    head, later = trace("head", 8, 100, at_s=100), trace("later", 4, 5000, at_s=200)
    result = run([kept, low, head, later], lanes=(Lane("all"),))
    assert started_s(result, "head") == 1000
    assert not any(span.cut for o in result.outcomes for span in o.spans)


def test_head_of_the_queue_and_higher_priorities_do_preempt_low_jobs():
    kept = trace("kept", 4, 1000, checkpoint=Checkpoint(preemptible=False))
    low = trace("low", 4, 1000, priority="low")
    head = trace("head", 4, 500, at_s=100)
    assert started_s(run([kept, low, head], lanes=(Lane("all"),)), "head") == 100
    wide, boss = trace("wide", 8, 100, at_s=100), trace("boss", 4, 500, at_s=200, priority="high")
    assert started_s(run([kept, low, wide, boss], lanes=(Lane("all"),)), "boss") == 200
