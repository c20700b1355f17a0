"""Stateful stress test of the scheduler: jobs, users, faults and restarts in any order keep all state consistent."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from gpusquad.core.state.runs import NEVER_US
from gpusquad.model.cluster import GIB, Card, Cluster, Node
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.model.priority import PRIORITY_CLASSES
from gpusquad.predict.base import OnlinePredictor
from gpusquad.registry import create, names
from gpusquad.server.answers import JobChange
from gpusquad.server.errors import Conflict, JobRefused, NotFound
from gpusquad.server.services import scheduler_pass
from gpusquad.server.services.runtime.loop import ServiceStopping
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import people
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.people import TenantRow
from tests.databases import memory_folder
from tests.server.services.storm_checks import Checks, FlakyDatabase
from tests.server.services.storm_engine import StormEngine
from tests.server.services.world import ADA, SECOND_US, World
from tests.strategies import examples

REFUSALS = (Conflict, Invalid, NotFound, JobRefused, StoreUnavailable)
TENANTS = ("default", "red")


def nodes_of(*cards: tuple[int, ...]) -> Cluster:
    """Create nodes with cards of these indexes, 16 GiB each."""
    return Cluster(tuple(
        Node(f"n{n}", tuple(Card(f"n{n}/{c}", memory_bytes=16 * GIB) for c in kept), 8000, 32 * GIB)
        for n, kept in enumerate(cards)
    ))  # fmt: skip


WHOLE = nodes_of((0, 1, 2), (0, 1), (0,))
CLUSTERS = [nodes_of((0, 1, 2), (0, 1)), nodes_of((0, 1, 2)), nodes_of((0, 2), (1,)), WHOLE, nodes_of((1,), (0, 1))]
CARDS = [card.id for node in WHOLE.nodes for card in node.cards]
NODES = [node.id for node in WHOLE.nodes]

# -- strategies ----------------------------------------------------------------------------------------------------

index = st.integers(0, 30)
"""Selects an existing job, card or run, modulo their number."""
seconds = st.sampled_from([1, 3, 10, 40])
requests = st.one_of(
    st.fixed_dictionaries({"gpus": st.integers(1, 3), "count": st.integers(1, 2)}),
    st.fixed_dictionaries({"gpus": st.just(1), "count": st.integers(1, 5)}),
    st.fixed_dictionaries({"gpus": st.just(1), "count": st.just(2), "min": st.just(1), "max": st.integers(2, 4)}),
    st.fixed_dictionaries({
        "share": st.sampled_from([{"memory": "4GiB", "sm": 0.25}, {"memory": "8GiB"}, {"sm": 0.5}]),
        "count": st.integers(1, 3),
    }),
    st.fixed_dictionaries({"cpu": st.integers(1, 4), "count": st.integers(1, 3)}),
    st.fixed_dictionaries({"gpus": st.just(1), "card": st.sampled_from(CARDS[:4])}),
    st.just({"roles": [{"name": "a", "gpus": 2}, {"name": "b", "count": 2, "share": {"sm": 0.5}, "cpu": 1}]}),
)  # fmt: skip
attributes = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "c"]), "priority": st.sampled_from(sorted(PRIORITY_CLASSES))},
    optional={
        "estimate": seconds,
        "limit": seconds,
        "tenant": st.just("red"),
        "lane": st.sampled_from(["large", "small"]),
        "retries": st.sampled_from([1, {"count": 2, "backoff": 5, "on": ["failed"]}, {"count": 1, "on": ["lost"]}]),
        "checkpoint": st.sampled_from([{"every": 2, "restart": 1}, {"preemptible": False}, {"grace": 0}]),
        "secrets": st.sampled_from([["known"], ["unknown"]]),
        "profile": st.just({"utilisation": 0.5}),
    },
)
after = st.just([]) | st.lists(st.tuples(index, st.sampled_from(["success", "failure", "any"])), max_size=2)
changes = st.one_of(
    st.builds(JobChange, priority=st.sampled_from(sorted(PRIORITY_CLASSES))),
    st.builds(JobChange, estimate_us=seconds.map(lambda s: s * SECOND_US)),
    st.builds(JobChange, limit_us=seconds.map(lambda s: s * SECOND_US)),
    st.builds(JobChange, slo=st.sampled_from([{"p99": "20ms"}, {"deadline": 100}, {}])),
    st.builds(JobChange, lane=st.sampled_from(["large", "small", "none such"]), name=st.sampled_from([None, "other"])),
    st.builds(JobChange, queue=st.just("nightly")),
)
policies = st.fixed_dictionaries({}, optional={
    "mode": st.sampled_from(["fifo", "fair", "jct", "slo"]),
    "order": st.sampled_from(names("order")),
    "plan": st.sampled_from(names("plan")),
    "place": st.sampled_from(names("place")),
    "preemption": st.fixed_dictionaries(
        {"by": st.sampled_from(["none", "priority", "order"])}, optional={"min_run_s": st.sampled_from([0, 5])}
    ),
})  # fmt: skip
submission = st.tuples(requests, attributes, after)
ends = st.sampled_from(["succeeded", "failed", "stopped", "lost"])
tenants = st.builds(
    TenantRow, st.sampled_from(TENANTS), limit_gpus=st.sampled_from([None, 1, 3]),
    guaranteed_gpus=st.sampled_from([None, 2]), reclaim_s=st.sampled_from([0.0, 10.0]),
    max_pending=st.sampled_from([None, None, 4]),
)  # fmt: skip


class EstimatePredictor(OnlinePredictor):
    """Predicts the user's estimate, or an unlimited run time without one."""

    def predict(self, job: Job) -> Quantiles:
        estimate_us = NEVER_US if job.estimate_us is None else job.estimate_us
        return certain(estimate_us, "user")

    def learn(self, run: PastRun) -> None: ...


class CubicProgressModel:
    """Predicts the remaining time from the step alone, correctly or not."""

    def __init__(self) -> None:
        self.step = 0

    def see(self, at_us: int, step: int, total: int | None) -> None:
        self.step = step

    def remaining(self, now_us: int, prior: Quantiles | None, started_us: int) -> Quantiles | None:
        return certain(self.step**3 * SECOND_US, "progress") if self.step else None


def read_secret(tenant: str, name: str) -> str:
    if name == "unknown":
        raise Invalid("secrets", "there is no such secret")
    return "x"


@cache
def empty_database() -> Path:
    path = Path(tempfile.mkdtemp(prefix="gpusquad-storm-", dir=memory_folder())) / "empty.db"
    database = Database(path)
    database.migrate()
    with database.write() as c:
        for name in TENANTS:
            people.put_tenant(c, TenantRow(name))
    database.close()
    return path


class Storm(RuleBasedStateMachine):
    """One service and one engine, with users, agents, administrators and faults."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="gpusquad-storm-", dir=memory_folder()))
        shutil.copyfile(empty_database(), self.folder / "world.db")
        self.database = FlakyDatabase(self.folder / "world.db")
        self.engine = StormEngine(WHOLE)
        self.jobs: list[str] = []

    @initialize(
        recent=st.booleans(),
        cluster=st.sampled_from(CLUSTERS),
        wanted=policies,
        first=st.lists(submission, min_size=4, max_size=10),
    )
    def start(self, recent: bool, cluster: Cluster, wanted: dict, first: list) -> None:
        self.make_predictor: Callable[[], Any] = (
            (lambda: create("predictor", "recent")) if recent else EstimatePredictor
        )
        self.world = World(self.folder, cluster, self.database, engine=self.engine, read_secret=read_secret,
                           predictor=self.make_predictor(), make_progress_model=CubicProgressModel)  # fmt: skip
        self.checks = Checks(self.world)
        self.engine.before_launch = self.checks.check_launch
        self.log = scheduler_pass._log
        scheduler_pass._log = _Log(self.checks.errors)  # type: ignore[assignment]
        self.never_pause()
        self.world.scheduler.policy_service.set({"preemption": {"by": "priority", "min_run_s": 0}} | wanted, ADA)
        self.submit(first, settles=True)

    # -- users -----------------------------------------------------------------------------------------------------

    @rule(files=st.lists(submission, min_size=1, max_size=4), settles=st.booleans())
    def submit(self, files: list, settles: bool) -> None:
        for request, attributes, after in files:
            after = [(self.jobs[at % len(self.jobs)], on) for at, on in after if self.jobs]
            file = {"command": ["true"], **request, **attributes}
            if after:
                file["after"] = [{"job": job_id, "on": on} for job_id, on in after]
            with suppress(*REFUSALS):
                self.add_jobs(self.world.scheduler.submit(expand(check(file)), ADA), after)
        self.settle_if(settles)

    @rule(count=st.integers(1, 3), settles=st.booleans())
    def submit_once(self, count: int, settles: bool) -> None:
        file = {"command": ["true"], "estimate": 5, "name": "sweep", "gpus": 1, "sweep": {"i": list(range(count))}}
        with suppress(*REFUSALS):
            self.add_jobs(self.world.scheduler.submit(expand(check(file)), ADA, None, f"key {count}"), [])
        self.settle_if(settles)

    @rule(at=index, action=st.sampled_from(["cancel", "hold", "hold", "release"]), settles=st.booleans())
    def act_on_job(self, at: int, action: str, settles: bool) -> None:
        self.call_on_job(at, lambda job_id: getattr(self.world.scheduler, action)(job_id, ADA))
        self.settle_if(settles)

    @rule(at=index, change=changes, settles=st.booleans())
    def update(self, at: int, change: JobChange, settles: bool) -> None:
        self.call_on_job(at, lambda job_id: self.world.scheduler.update(job_id, change, ADA))
        self.settle_if(settles)

    @rule(wanted=st.one_of(policies, tenants))
    def change_policy_or_tenant(self, wanted: dict | TenantRow) -> None:
        with suppress(*REFUSALS):
            if isinstance(wanted, dict):
                self.world.scheduler.policy_service.set(wanted, ADA)
            else:
                with self.database.write() as c:
                    people.put_tenant(c, wanted)
                self.world.scheduler.reload_tenants()

    @rule(at=index, wanted=policies, request=requests)
    def query(self, at: int, wanted: dict, request: dict) -> None:
        scheduler = self.world.scheduler
        cards, nodes = scheduler.node_service.cards(), scheduler.node_service.nodes()
        assert scheduler.node_service.cluster().gpus == len(cards) == sum(len(node.cards) for node in nodes)
        assert sorted(scheduler.queries.positions().values()) == [e.position for e in scheduler.queries.queue(0, 100)]
        scheduler.policy_service.preview(wanted)
        (spec,) = expand(check({"command": ["true"], "estimate": 5, **request}))
        with suppress(*REFUSALS):
            scheduler.queries.what_if(spec, ADA)
        self.call_on_job(at, scheduler.queries.why)
        self.call_on_job(at, scheduler.queries.when)

    # -- nodes and cards -------------------------------------------------------------------------------------------

    @rule(card=st.sampled_from(CARDS), action=st.sampled_from(["card_fault", "card_ok", "taken", "left"]))
    def report_card(self, card: str, action: str) -> None:
        if action.startswith("card"):
            self.world.scheduler.watcher.hear({"kind": action, "card": card, "cause": "Xid 79"})
        else:
            self.world.scheduler.node_service.taken_outside(card, "held by somebody" if action == "taken" else None)

    @rule(at=index, action=st.sampled_from(["cordon", "uncordon", "drain", "undrain"]))
    def cordon_or_drain(self, at: int, action: str) -> None:
        which = CARDS if "cordon" in action else NODES
        with suppress(*REFUSALS):
            call = getattr(self.world.scheduler.node_service, action)
            call(which[at % len(which)], *(() if action.startswith("un") else (ADA,)))

    @rule(node=st.sampled_from(NODES), start_s=st.integers(0, 20), duration_s=st.sampled_from([None, 1, 30]))
    def add_window(self, node: str, start_s: int, duration_s: int | None) -> None:
        start_us = self.world.clock.at_us + start_s * SECOND_US
        end_us = None if duration_s is None else start_us + duration_s * SECOND_US
        with suppress(*REFUSALS):
            self.world.scheduler.node_service.add_window([node], start_us, end_us, ADA)

    @rule(at=index)
    def remove_window(self, at: int) -> None:
        windows = self.world.scheduler.node_service.windows()
        if windows:
            with suppress(*REFUSALS):
                self.world.scheduler.node_service.remove_window(windows[at % len(windows)].id)

    @rule(at=index, step=st.integers(0, 9))
    def progress(self, at: int, step: int) -> None:
        runs = self.world.scheduler.running_attempts()
        if runs:
            job_id, attempt, _ = runs[at % len(runs)]
            run = {"job": job_id, "attempt": attempt, "step": step, "total": 10, "progress_at_us": 1}
            cards = [{"id": card} for card in CARDS]
            self.world.scheduler.watcher.hear(
                {"kind": "samples", "at_us": self.world.clock.at_us, "cards": cards, "runs": [run]}
            )

    # -- time and gangs --------------------------------------------------------------------------------------------

    @rule(us=st.sampled_from([1, SECOND_US, 5 * SECOND_US, 60 * SECOND_US, 1000 * SECOND_US]))
    def wait(self, us: int) -> None:
        self.world.clock.at_us += us
        self.world.settle()

    @rule(gangs=st.lists(st.tuples(index, ends), min_size=1, max_size=3), settles=st.booleans())
    def end_gangs(self, gangs: list, settles: bool) -> None:
        for at, how in gangs:
            running = sorted(self.engine.running)
            if running:
                self.engine.end(running[at % len(running)], how, f"it {how}")
        self.settle_if(settles)

    @rule(how=ends, settles=st.booleans())
    def end_stopping_gangs(self, how: str, settles: bool) -> None:
        for key in sorted(self.engine.stopping):
            self.engine.end(key, how)
        self.settle_if(settles)

    @rule(slow=st.booleans(), late=st.booleans(), refuses=st.sampled_from([0, 0, 1]), breaks=st.sampled_from([0, 0, 1]))
    def set_engine_faults(self, slow: bool, late: bool, refuses: int, breaks: int) -> None:
        engine = self.engine
        engine.slow_to_stop, engine.delays_reports, engine.launches_to_refuse, engine.launches_to_raise = (
            slow,
            late,
            refuses,
            breaks,
        )

    @rule(number=st.sampled_from([1, 2, None]), again=st.none() | st.integers(0, 1000), settles=st.booleans())
    def deliver_reports(self, number: int | None, again: int | None, settles: bool) -> None:
        self.engine.deliver(number)
        if again is not None:
            self.engine.resend(again)
        self.settle_if(settles)

    # -- outages and restarts --------------------------------------------------------------------------------------

    @rule(writes=st.integers(1, 3))
    def fail_store_writes(self, writes: int) -> None:
        self.database.failing = writes

    @rule(cluster=st.none() | st.sampled_from(CLUSTERS), settles=st.booleans())
    def restart(self, cluster: Cluster | None, settles: bool) -> None:
        self.world.cluster = cluster or self.world.cluster
        self.make()
        self.settle_if(settles)

    @rule(settles=st.booleans())
    def crash_before_commit(self, settles: bool) -> None:
        self.database.failing = 1000
        self.world.scheduler._context.loop.pause = lambda seconds: False
        with suppress(ServiceStopping):
            self.world.scheduler.step()
        self.make()
        self.settle_if(settles)

    @rule(received_calls=st.integers(0, 2), settles=st.booleans())
    def crash_after_commit(self, received_calls: int, settles: bool) -> None:
        self.engine.calls_left = received_calls
        with suppress(ServiceStopping):
            self.world.scheduler.step()
        self.make()
        self.settle_if(settles)

    # -- checks ----------------------------------------------------------------------------------------------------

    @invariant()
    def all_state_agrees(self) -> None:
        self.checks.check()

    def teardown(self) -> None:
        try:
            if hasattr(self, "checks") and sys.exc_info()[0] is None:
                self.finish_all_jobs()
        finally:
            if hasattr(self, "log"):
                scheduler_pass._log = self.log
            self.database.close()
            shutil.rmtree(self.folder)

    def finish_all_jobs(self) -> None:
        """Clear all faults and limits and release held jobs. Then every job must finish."""
        self.clear_faults()
        world, scheduler = self.world, self.world.scheduler
        for _ in range(100):
            self.checks.check()
            if not scheduler.queries.unfinished():
                break
            for row in scheduler.queries.unfinished():
                if (row.stop or {}).get("how") in ("hold", "contained"):
                    with suppress(Conflict):  # cancelled meanwhile together with a job it depends on
                        scheduler.release(row.id, ADA)
            for key in sorted(self.engine.running):
                self.engine.end(key)
            world.clock.at_us += 10_000 * SECOND_US
            world.settle()
        self.checks.check_all_finished()

    def clear_faults(self) -> None:
        self.database.failing = self.engine.launches_to_refuse = self.engine.launches_to_raise = 0
        self.engine.slow_to_stop = self.engine.delays_reports = False
        self.engine.deliver()
        scheduler = self.world.scheduler
        with self.database.write() as c:
            for name in TENANTS:
                people.put_tenant(c, TenantRow(name))
        scheduler.reload_tenants()
        for card in scheduler.node_service.cards():
            scheduler.node_service.uncordon(card.id)
            scheduler.node_service.taken_outside(card.id, None)
        for node in scheduler.node_service.nodes():
            scheduler.node_service.undrain(node.id)
        for window in scheduler.node_service.windows():
            scheduler.node_service.remove_window(window.id)
        for key in sorted(self.engine.stopping):
            self.engine.end(key, "stopped")
        self.world.settle()

    # -- helpers ---------------------------------------------------------------------------------------------------

    def settle_if(self, settles: bool) -> None:
        """Let the scheduler run now, or leave the inbox for the next step."""
        if settles:
            self.world.settle()

    def add_jobs(self, rows: list, after: list) -> None:
        for row in rows:
            if row.id not in self.jobs:
                self.jobs.append(row.id)
                self.checks.after[row.id] = after

    def call_on_job(self, at: int, call: Callable[[str], object]) -> None:
        if self.jobs:
            with suppress(*REFUSALS):
                call(self.jobs[at % len(self.jobs)])

    def make(self) -> None:
        self.database.failing, self.engine.calls_left = 0, None
        self.world.setup["predictor"] = self.make_predictor()
        self.world.scheduler = self.world.make()
        self.never_pause()

    def never_pause(self) -> None:
        """Retry an unavailable store without a pause, because time is virtual."""
        self.world.scheduler._context.loop.pause = lambda seconds: True


class _Log:
    """Records as an error every exception that the scheduler logs and survives."""

    def __init__(self, errors: list[str]) -> None:
        self._errors = errors

    def exception(self, message: str, **rest: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, StoreUnavailable):
            self._errors.append(f"{message}: {error!r}")
            raise  # noqa: PLE0704 - keep the original traceback

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **rest: None


@pytest.mark.filterwarnings("ignore::hypothesis.errors.NonInteractiveExampleWarning")
def test_scheduler_state_stays_consistent_under_random_operations_and_faults() -> None:
    run_state_machine_as_test(
        Storm,
        settings=settings(examples(100), stateful_step_count=40,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]),
    )  # fmt: skip
