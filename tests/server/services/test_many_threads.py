"""The scheduler in its own thread, called concurrently by users, an agent and an engine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from random import Random

import pytest

from gpusquad.core.ports import Launch
from gpusquad.server.answers import JobChange
from gpusquad.server.errors import Conflict, NotFound
from gpusquad.server.services import scheduler_pass
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from tests.server.services.storm_checks import Checks
from tests.server.services.storm_engine import Key, StormEngine
from tests.server.services.world import ADA, SECOND_US, World

CALLS = 40
"""Number of rounds of each calling thread."""
PLACES = ["binpack", "fragmentation", "standalone", "topology"]


class SharedEngine(StormEngine):
    """A `StormEngine` that several threads may call."""

    lock = threading.RLock()

    def launch(self, launch: Launch) -> None:
        with self.lock:
            super().launch(launch)

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        with self.lock:
            super().stop(job_id, attempt, cause, grace_s)

    def end_random_gang(self, random: Random) -> Key | None:
        with self.lock:
            key = random.choice(sorted(self.running)) if self.running else None
            if key is not None:
                self.end(key, random.choice(["succeeded", "failed", "lost"]))
            return key


@pytest.fixture
def world(tmp_path) -> World:
    world = World(tmp_path, "2x3")
    world.engine = SharedEngine(world.cluster)
    world.scheduler = world.make()
    return world


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_state_stays_consistent_under_concurrent_calls(world: World, monkeypatch) -> None:
    failures: list[str] = []
    monkeypatch.setattr(
        scheduler_pass._log, "exception", lambda message, **rest: failures.append(message), raising=False
    )
    checks = Checks(world)
    world.engine.before_launch = checks.check_launch
    world.scheduler.start()
    callers = [act_as_user, act_as_user, act_as_user, act_as_administrator, act_as_agent, act_as_reader, act_as_reader]
    with frequent_thread_switches(), ThreadPoolExecutor(len(callers)) as pool:
        futures = [pool.submit(call, world, Random(seed)) for seed, call in enumerate(callers)]
        for future in futures:
            future.result(120)
    end_all(world)
    world.scheduler.close()
    assert failures == []
    checks.check()
    checks.check_all_finished()


def act_as_user(world: World, random: Random) -> None:
    """Submit, change, hold and cancel jobs, and end gangs."""
    scheduler, job_ids = world.scheduler, []
    for i in range(CALLS):
        action = random.randrange(6)
        if action < 2 or not job_ids:
            file = {"command": ["true"], "estimate": random.randint(1, 9), "gpus": random.randint(1, 3)}
            if job_ids and random.random() < 0.3:
                file["after"] = [{"job": random.choice(job_ids), "on": "any"}]
            key = f"{random.randrange(20)}" if random.random() < 0.3 else None
            with suppress(Conflict):  # another caller used this key
                job_ids += [row.id for row in scheduler.submit(expand(check(file)), ADA, None, key)]
        elif action == 2:
            world.engine.end_random_gang(random)
        else:
            job_id = random.choice(job_ids)
            change: Callable[[], object] = random.choice([
                lambda job_id=job_id: scheduler.cancel(job_id, ADA),
                lambda job_id=job_id: scheduler.hold(job_id, ADA),
                lambda job_id=job_id: scheduler.release(job_id, ADA),
                lambda job_id=job_id: scheduler.update(job_id, JobChange(priority="high"), ADA),
                lambda job_id=job_id, i=i: scheduler.update(job_id, JobChange(limit_us=(i + 1) * SECOND_US), ADA),
            ])  # fmt: skip
            with suppress(Conflict):
                change()


def act_as_administrator(world: World, random: Random) -> None:
    scheduler = world.scheduler
    for i in range(CALLS):
        window = scheduler.node_service.add_window(["n0"], 10**15 + i, None, ADA)
        scheduler.node_service.cordon("n0/0", ADA)
        scheduler.policy_service.set(
            {"place": random.choice(PLACES), "preemption": {"by": "priority", "min_run_s": 0}}, ADA
        )
        scheduler.node_service.drain("n1", ADA)
        scheduler.node_service.remove_window(window.id)
        scheduler.node_service.undrain("n1")
        scheduler.node_service.uncordon("n0/0")
        scheduler.reload_tenants()


def act_as_agent(world: World, random: Random) -> None:
    for i in range(CALLS):
        world.clock.at_us += SECOND_US
        card = f"n{random.randrange(2)}/{random.randrange(3)}"
        world.scheduler.watcher.hear({"kind": "card_fault", "card": card, "cause": "Xid 79"})
        runs = [
            {"job": job_id, "attempt": attempt, "step": i, "total": CALLS}
            for job_id, attempt, _ in world.scheduler.running_attempts()
        ]
        cards = [{"id": card, "processes": []}]
        world.scheduler.watcher.hear({"kind": "samples", "at_us": world.clock.at_us, "cards": cards, "runs": runs})
        world.scheduler.watcher.hear({"kind": "card_ok", "card": card})


def act_as_reader(world: World, random: Random) -> None:
    scheduler = world.scheduler
    for _ in range(CALLS):
        assert len(scheduler.node_service.cards()) == scheduler.node_service.cluster().gpus
        scheduler.node_service.windows()
        for entry in scheduler.queries.queue(0, 3):
            with suppress(NotFound):
                scheduler.queries.why(entry.job_id)
                scheduler.queries.when(entry.job_id)
        scheduler.policy_service.status()
        scheduler.queries.positions()
        scheduler.policy_service.preview({"place": random.choice(PLACES), "order": "sjf"})


def end_all(world: World) -> None:
    for _ in range(200):
        unfinished = world.scheduler.queries.unfinished()
        if not unfinished:
            return
        for row in unfinished:
            with suppress(Conflict):
                world.scheduler.cancel(row.id, ADA)
    raise AssertionError(f"{len(world.scheduler.queries.unfinished())} jobs are stuck")
