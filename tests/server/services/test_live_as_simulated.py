"""The live scheduler and the simulator start the same jobs at the same times on the same cards."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.state.lanes import DEFAULT_LANES
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import PastRun, Predictor
from gpusquad.modes import load_mode
from gpusquad.predict.combined import CombinedPredictor
from gpusquad.predict.recent import Recent
from gpusquad.server.answers import SYSTEM, Who
from gpusquad.server.services.prediction.training import past_run
from gpusquad.server.services.runtime.records import job_of
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate, user
from gpusquad.sim.traces import TraceJob
from gpusquad.store import run_forecasts
from tests.server.services.world import SECOND_US, ByEstimate, ScriptedEngine, VirtualClock, World
from tests.strategies import examples

CLUSTER = "2x4"
LANES = DEFAULT_LANES
"""Small jobs without checkpoints may be preempted, which the lanes of the default mode forbid."""
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


@given(jobs, st.sampled_from(["fifo", "sjf", "drf"]), plans, places, st.booleans())
@examples(15)
def test_live_and_simulated_decisions_are_equal(rows, order, plan, place, preempts) -> None:
    traces, preemption = traces_of(rows), preemption_config(preempts)
    policies = make_policies(order, plan, place, preemption=preemption, lanes=LANES)
    expected = simulated_starts(Scenario(grid(CLUSTER), traces, policies, user))
    assert live_starts(traces, order, plan, place, preemption, ByEstimate()) == expected


@given(jobs, st.sampled_from(["fifo", "sjf", "srpt"]), plans, places, st.booleans())
@examples(15)
def test_live_and_simulated_decisions_are_equal_when_predictions_are_refreshed(
    rows, order, plan, place, preempts
) -> None:
    traces, preemption = traces_of(rows, APART_US), preemption_config(preempts)
    policies = make_policies(order, plan, place, preemption=preemption, lanes=LANES)
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
             "preemption": {"by": preemption.by, "min_run_s": preemption.min_run_s},
             "lanes": [{"name": lane.name, "min_gpus": lane.min_gpus, "max_lost_s": lane.max_lost_s}
                       for lane in LANES]}, SYSTEM,
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


# -- modes with the predictor, preemption and checkpoints ------------------------------------------------------------

uncertain_jobs = st.lists(
    st.tuples(
        st.integers(0, 30),  # seconds after the previous submission
        st.integers(1, 4),  # GPUs a task
        st.integers(1, 2),  # tasks
        st.integers(1, 60),  # run time
        st.one_of(st.none(), st.integers(1, 60)),  # the user's estimate
        st.one_of(st.none(), st.integers(5, 90)),  # time limit
        st.one_of(st.none(), st.tuples(st.integers(1, 20), st.integers(0, 4))),  # checkpoint interval, time to restart
        st.sampled_from(["low", "normal", "high"]),
        st.sampled_from(["ada", "bob"]),
    ),
    max_size=14,
)


@given(uncertain_jobs, uncertain_jobs)
@examples(15)
def test_default_service_decides_as_the_default_simulation_with_the_same_history(past_rows, rows) -> None:
    assert_alike(past_rows, rows, {}, {})


@given(uncertain_jobs, uncertain_jobs, st.sampled_from(["standard", "predictive", "slo", "jct"]),
       st.sampled_from(["priority", "order"]), st.sampled_from(["checkpointed", "always"]))  # fmt: skip
@examples(15)
def test_live_and_simulated_decisions_are_equal_with_predictions_preemption_and_checkpoints(
    past_rows, rows, mode, by, overstay
) -> None:
    preempt = {"by": by, "min_run_s": 5.0, "overstay": overstay}
    assert_alike(past_rows, rows, {"mode": mode}, preempt)


class CheckpointingEngine(ScriptedEngine):
    """A gang that is stopped keeps its work up to the last checkpoint, and restarts from there."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.checkpoints: dict[str, tuple[int, int]] = {}
        """Name of a job -> checkpoint interval and time to restart."""

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        name = self.running[job_id, attempt].name
        every_us, restart_us = self.checkpoints.get(name, (0, 0))
        started_us = next(
            at_us for at_us, one, number, _ in reversed(self.launched) if (one, number) == (name, attempt)
        )
        done_us = self.clock.at_us - started_us - (restart_us if attempt else 0)
        if attempt == 0:
            self.run_us[name] += restart_us
        if every_us and done_us > 0:
            self.run_us[name] -= done_us // every_us * every_us
        super().stop(job_id, attempt, cause, grace_s)


def assert_alike(past_rows: list, rows: list, settings: dict, preempt: dict) -> None:
    """The first jobs run before a restart of the service, and are history for the others."""
    mode = load_mode(settings.get("mode", "standard"))
    policies = mode.policies(preemption=replace(mode.preemption, **preempt))

    def simulated(jobs: list[TraceJob], history: list[PastRun]) -> list:
        predictor = CombinedPredictor()
        predictor.fit(history)
        feed = PredictorFeed(predictor, mode.uses)
        return simulated_starts(Scenario(grid(CLUSTER), jobs, policies, **feed.parts()))

    with tempfile.TemporaryDirectory() as folder:
        world = checkpointing_world(Path(folder))
        if settings or preempt:
            world.scheduler.policy_service.set(settings | {"preemption": preempt}, SYSTEM)
        past = submitted_and_run(world, past_rows, "past")
        assert starts(world, "past") == simulated(past, [])

        world.setup["predictor"] = CombinedPredictor()
        world.scheduler = world.make()
        history = stored_history(world)
        jobs = submitted_and_run(world, rows, "new")
        assert starts(world, "new") == simulated(jobs, history)
        world.database.close()


def checkpointing_world(folder: Path) -> World:
    clock = VirtualClock()
    return World(folder, CLUSTER, predictor=CombinedPredictor(), clock=clock, engine=CheckpointingEngine(clock))


def stored_history(world: World) -> list[PastRun]:
    with world.database.read() as connection:
        return [past_run(row) for row in run_forecasts.past_runs(connection, run_forecasts.BEFORE_ALL, 1000)]


def starts(world: World, prefix: str) -> list:
    index = {card: i for i, card in enumerate(world.scheduler._context.fixed.card_ids)}
    return sorted((at_us, name, attempt, tuple(index[c] for c in cards))
                  for at_us, name, attempt, cards in world.engine.launched if name.startswith(prefix))  # fmt: skip


def submitted_and_run(world: World, rows: list, prefix: str) -> list[TraceJob]:
    """Run the rows in the service. Returns its jobs with their actual run times, for the simulator."""
    files, at_us = [], world.clock.at_us
    for i, (after_s, gpus, count, run_s, estimate_s, limit_s, checkpoint, priority, user_name) in enumerate(rows):
        at_us += after_s * SECOND_US + APART_US
        name = f"{prefix}{i:03}"
        world.engine.run_us[name] = run_s * SECOND_US
        file = {"name": name, "gpus": gpus, "count": count, "priority": priority, "estimate": estimate_s,
                "limit": limit_s}  # fmt: skip
        if checkpoint is not None:
            every_s, restart_s = checkpoint
            assert isinstance(world.engine, CheckpointingEngine)
            world.engine.checkpoints[name] = (every_s * SECOND_US, restart_s * SECOND_US)
            file["checkpoint"] = {"every": every_s, "restart": restart_s}
        files.append((at_us, user_name, {key: value for key, value in file.items() if value is not None}))
    run_us = dict(world.engine.run_us)
    ids = run_files(world, files)
    rows_found = [world.scheduler.row(job_id) for job_id in ids]
    return [TraceJob(job_of(row), run_us[row.name]) for row in rows_found]


def run_files(world: World, files: list[tuple[int, str, dict]]) -> list[str]:
    waiting, ids = list(files), []
    wake_us = world.settle()
    for _ in range(10_000):
        times = [at_us for at_us, _, _ in waiting[:1]]
        times += [t for t in (world.engine.next_end_us(),) if t is not None]
        if not times:
            break
        world.clock.at_us = max(min([*times, wake_us]), world.clock.at_us)
        world.engine.end_due()
        while waiting and waiting[0][0] <= world.clock.at_us:
            _, user_name, file = waiting.pop(0)
            ids.append(world.submit(Who(user_name, "default", "admin"), **file))
        wake_us = world.settle()
    return ids
