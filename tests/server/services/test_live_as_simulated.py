"""The live scheduler and the simulator decide alike: the same jobs start at the same instants on the same cards."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import Predictor
from gpusquad.predict.recent import Recent
from gpusquad.server.answers import SYSTEM, Who
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate, user
from gpusquad.sim.traces import TraceJob
from tests.server.services.world import SECOND_US, ByEstimate, World

CLUSTER = "2x4"
APART_US = 1000
"""So that nobody comes at the instant of an end: a live service may foretell who does before it hears of the end."""
jobs = st.lists(
    st.tuples(
        st.integers(0, 30),  # submitted after the one before
        st.integers(1, 4),  # GPUs a task
        st.integers(1, 2),  # tasks
        st.integers(1, 60),  # run time
        st.integers(0, 60),  # how much longer the user says
        st.sampled_from(["low", "normal", "high"]),
        st.sampled_from(["ada", "bob"]),
    ),
    min_size=1,
    max_size=14,
)


plans = st.sampled_from(["easy", "none", "conservative"])
places = st.sampled_from(["binpack", "balance"])
many = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(jobs, st.sampled_from(["fifo", "sjf", "drf"]), plans, places, st.booleans())
@many
def test_live_and_simulated_runs_take_the_same_decisions(rows, order, plan, place, preempts) -> None:
    traces, preemption = made(rows), preempting(preempts)
    policies = make_policies(order, plan, place, preemption=preemption)
    wanted = simulated(Scenario(grid(CLUSTER), traces, policies, user))
    assert live(traces, order, plan, place, preemption, ByEstimate()) == wanted


@given(jobs, st.sampled_from(["fifo", "sjf", "srpt"]), plans, places, st.booleans())
@many
def test_so_do_those_that_foretell_waiting_jobs_anew_after_each_run(rows, order, plan, place, preempts) -> None:
    traces, preemption = made(rows, APART_US), preempting(preempts)
    policies = make_policies(order, plan, place, preemption=preemption)
    wanted = simulated(Scenario(grid(CLUSTER), traces, policies, **PredictorFeed(Recent(last=1)).parts()))
    assert live(traces, order, plan, place, preemption, Recent(last=1)) == wanted


def made(rows, apart_us: int = 0) -> list[TraceJob]:
    traces, at_us = [], 0
    for i, (after_s, gpus, count, run_s, more_s, priority, who) in enumerate(rows):
        at_us += after_s * SECOND_US + apart_us
        name = f"j{i:03}"
        job = Job(name, (Role("task", count, Request(gpus=gpus)),), at_us, name, user=who, priority=priority,
                  estimate_us=(run_s + more_s) * SECOND_US)  # fmt: skip
        traces.append(TraceJob(job, run_s * SECOND_US))
    return traces


def preempting(preempts: bool) -> PreemptionConfig:
    return PreemptionConfig(by="priority", min_run_s=5.0) if preempts else PreemptionConfig()


def simulated(scenario: Scenario) -> list:
    return sorted(
        (span.started_us, outcome.job.name, attempt, span.cards)
        for outcome in simulate(scenario).outcomes
        for attempt, span in enumerate(outcome.spans)
    )


def live(traces: list[TraceJob], order: str, plan: str, place: str, preemption: PreemptionConfig,
         predictor: Predictor) -> list:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), CLUSTER, predictor=predictor)
        world.scheduler.policy_service.set(
            {"order": order, "plan": plan, "place": place,
             "preemption": {"by": preemption.by, "min_run_s": preemption.min_run_s}}, SYSTEM,
        )  # fmt: skip
        run_all(world, traces)
        index = {card: i for i, card in enumerate(world.scheduler._context.fixed.card_ids)}
        world.database.close()
    return sorted((at_us, name, attempt, tuple(index[c] for c in cards))
                  for at_us, name, attempt, cards in world.engine.launched)  # fmt: skip


def run_all(world: World, traces: list[TraceJob]) -> None:
    world.engine.run_us = {trace.job.name: trace.run_us for trace in traces}
    waiting = list(traces)
    wake_us = world.settle()
    for _ in range(10_000):
        times = [trace.job.submitted_us for trace in waiting[:1]]
        times += [t for t in (world.engine.next_end_us(),) if t is not None]
        if not times:
            break
        world.clock.at_us = max(min([*times, wake_us]), world.clock.at_us)
        world.engine.end_due()
        while waiting and waiting[0].job.submitted_us <= world.clock.at_us:
            job = waiting.pop(0).job
            role = job.roles[0]
            world.submit(Who(job.user, "default", "admin"), name=job.name, gpus=role.request.gpus, count=role.count,
                         priority=job.priority, estimate=job.estimate_us / SECOND_US)  # fmt: skip
        wake_us = world.settle()
