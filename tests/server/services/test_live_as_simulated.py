"""The live scheduler and the simulator decide alike: the same jobs start at the same instants on the same cards."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpusquad.core.policies import Preemption, make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.server.answers import SYSTEM
from gpusquad.sim.simulator import Scenario, simulate, user
from gpusquad.sim.traces import TraceJob
from tests.server.services.world import SECOND_US, World

CLUSTER = "2x4"
jobs = st.lists(
    st.tuples(
        st.integers(0, 30),  # submitted after the one before
        st.integers(1, 4),  # GPUs a task
        st.integers(1, 2),  # tasks
        st.integers(1, 60),  # run time
        st.integers(0, 60),  # how much longer the user says
        st.sampled_from(["low", "normal", "high"]),
    ),
    min_size=1,
    max_size=14,
)


@given(jobs, st.sampled_from(["fifo", "sjf", "drf"]), st.sampled_from(["easy", "none", "conservative"]),
       st.sampled_from(["binpack", "balance"]), st.booleans())  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_live_and_simulated_runs_take_the_same_decisions(rows, order, plan, place, preempts) -> None:
    traces, at_us = [], 0
    for i, (after_s, gpus, count, run_s, more_s, priority) in enumerate(rows):
        at_us += after_s * SECOND_US
        name = f"j{i:03}"
        job = Job(name, (Role("task", count, Request(gpus=gpus)),), at_us, name, user="ada", priority=priority,
                  estimate_us=(run_s + more_s) * SECOND_US)  # fmt: skip
        traces.append(TraceJob(job, run_s * SECOND_US))
    preemption = Preemption(by="priority", min_run_s=5.0) if preempts else Preemption()
    policies = make_policies(order, plan, place, preemption=preemption)
    simulated = simulate(Scenario(grid(CLUSTER), traces, policies, user))
    wanted = sorted(
        (span.started_us, outcome.job.name, attempt, span.cards)
        for outcome in simulated.outcomes
        for attempt, span in enumerate(outcome.spans)
    )
    with tempfile.TemporaryDirectory() as folder:
        assert live(Path(folder), traces, order, plan, place, preemption) == wanted


def live(folder: Path, traces: list[TraceJob], order: str, plan: str, place: str, preemption: Preemption) -> list:
    world = World(folder, CLUSTER)
    world.scheduler.set_policy(
        {"order": order, "plan": plan, "place": place,
         "preemption": {"by": preemption.by, "min_run_s": preemption.min_run_s}}, SYSTEM,
    )  # fmt: skip
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
            world.submit(name=job.name, gpus=role.request.gpus, count=role.count, priority=job.priority,
                         estimate=job.estimate_us / SECOND_US)  # fmt: skip
        wake_us = world.settle()
    index = {card: i for i, card in enumerate(world.scheduler._desk.fixed.card_ids)}
    world.database.close()
    return sorted((at_us, name, attempt, tuple(index[c] for c in cards))
                  for at_us, name, attempt, cards in world.engine.launched)  # fmt: skip
