"""The live scheduler and the simulator start the same jobs at the same times on the same cards."""

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
"""Offset that keeps submissions apart from ends: at the same instant, a live service may predict before the end."""
jobs = st.lists(
    st.tuples(
        st.integers(0, 30),  # seconds after the previous submission
        st.integers(1, 4),  # GPUs a task
        st.integers(1, 2),  # tasks
        st.integers(1, 60),  # run time
        st.integers(0, 60),  # excess of the user's estimate
        st.sampled_from(["low", "normal", "high"]),
        st.sampled_from(["ada", "bob"]),
    ),
    min_size=1,
    max_size=14,
)


plans = st.sampled_from(["easy", "none", "conservative"])
places = st.sampled_from(["binpack", "balance"])
few_examples = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@given(jobs, st.sampled_from(["fifo", "sjf", "drf"]), plans, places, st.booleans())
@few_examples
def test_live_and_simulated_decisions_are_equal(rows, order, plan, place, preempts) -> None:
    traces, preemption = traces_of(rows), preemption_config(preempts)
    policies = make_policies(order, plan, place, preemption=preemption)
    expected = simulated_starts(Scenario(grid(CLUSTER), traces, policies, user))
    assert live_starts(traces, order, plan, place, preemption, ByEstimate()) == expected


@given(jobs, st.sampled_from(["fifo", "sjf", "srpt"]), plans, places, st.booleans())
@few_examples
def test_live_and_simulated_decisions_are_equal_when_predictions_are_refreshed(
    rows, order, plan, place, preempts
) -> None:
    traces, preemption = traces_of(rows, APART_US), preemption_config(preempts)
    policies = make_policies(order, plan, place, preemption=preemption)
    expected = simulated_starts(Scenario(grid(CLUSTER), traces, policies, **PredictorFeed(Recent(last=1)).parts()))
    assert live_starts(traces, order, plan, place, preemption, Recent(last=1)) == expected


def traces_of(rows, apart_us: int = 0) -> list[TraceJob]:
    traces, at_us = [], 0
    for i, (after_s, gpus, count, run_s, excess_s, priority, user_name) in enumerate(rows):
        at_us += after_s * SECOND_US + apart_us
        name = f"j{i:03}"
        job = Job(name, (Role("task", count, Request(gpus=gpus)),), at_us, name, user=user_name, priority=priority,
                  estimate_us=(run_s + excess_s) * SECOND_US)  # fmt: skip
        traces.append(TraceJob(job, run_s * SECOND_US))
    return traces


def preemption_config(preempts: bool) -> PreemptionConfig:
    return PreemptionConfig(by="priority", min_run_s=5.0) if preempts else PreemptionConfig()


def simulated_starts(scenario: Scenario) -> list:
    return sorted(
        (span.started_us, outcome.job.name, attempt, span.cards)
        for outcome in simulate(scenario).outcomes
        for attempt, span in enumerate(outcome.spans)
    )


def live_starts(traces: list[TraceJob], order: str, plan: str, place: str, preemption: PreemptionConfig,
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
