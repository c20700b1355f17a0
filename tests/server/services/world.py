"""Test world: the real scheduler with a real store, virtual time and a scripted engine."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Launch, Report
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Quantiles, certain
from gpusquad.model.sharing_params import SharingParams
from gpusquad.predict.base import OnlinePredictor
from gpusquad.server.answers import Who
from gpusquad.server.services.scheduler import Scheduler, Setup
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import events, people
from gpusquad.store.database import Database
from gpusquad.store.people import TenantRow
from tests.databases import sqlite_schema

ADA = Who("ada", "default", "admin")
SECOND_US = 1_000_000


class VirtualClock:
    def __init__(self, now_us: int = 0) -> None:
        self.at_us = now_us

    def now_us(self) -> int:
        return self.at_us


class ByEstimate(OnlinePredictor):
    """Predicts exactly the user's estimate."""

    def predict(self, job: Job) -> Quantiles:
        assert job.estimate_us is not None
        return certain(job.estimate_us, "user")

    def learn(self, run: PastRun) -> None: ...


@dataclass
class ScriptedEngine:
    """Runs each gang in virtual time for the run time scripted for its job's name."""

    clock: VirtualClock
    report: object = None
    run_us: dict[str, int] = field(default_factory=dict)
    ends_as: dict[str, str] = field(default_factory=dict)
    launched: list[tuple[int, str, int, tuple[str, ...]]] = field(default_factory=list)
    stopped: list[tuple[int, str, int, str]] = field(default_factory=list)
    changed: list[tuple[str, int, int, SharingParams]] = field(default_factory=list)
    resized: list[tuple[str, int, int, int]] = field(default_factory=list)
    holds_bytes: int = 0
    peak_bytes: Sequence[int] = ()
    """Peak memory of each task in bytes. Missing entries are reported as 0 (unknown)."""
    running: dict[tuple[str, int], Launch] = field(default_factory=dict)
    recovered: Sequence[tuple[str, int]] = ()
    slow_to_stop: bool = False
    _ends: list[tuple[int, int, str, int]] = field(default_factory=list)

    def launch(self, launch: Launch) -> None:
        key = (launch.job_id, launch.attempt)
        assert key not in self.running, "started twice"
        cards = tuple(card for task in launch.tasks for card in task.cards)
        busy = {
            card for other in self.running.values() for task in other.tasks if not task.share for card in task.cards
        }
        assert not busy & set(cards), "a card is held twice"
        self.running[key] = launch
        self.launched.append((self.clock.at_us, launch.name, launch.attempt, cards))
        if launch.name in self.run_us:
            end_us = self.clock.at_us + self.run_us[launch.name]
            heapq.heappush(self._ends, (end_us, len(self.launched), *key))
        self._send(AttemptStarted(*key, (1,)))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        self.stopped.append((self.clock.at_us, job_id, attempt, cause))
        if not self.slow_to_stop:
            self.end(job_id, attempt, "stopped", cause)

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None:
        self.changed.append((job_id, attempt, tasks, sharing_params))

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        if memory_bytes < self.holds_bytes:
            raise Invalid("memory", "it holds more now")
        self.resized.append((job_id, attempt, tasks, memory_bytes))

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        return (*self.peak_bytes, *(0,) * tasks)[:tasks]

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None:
        self.recovered = list(attempts)

    def close(self) -> None: ...

    def end(self, job_id: str, attempt: int, how: str = "succeeded", cause: str = "") -> None:
        if self.running.pop((job_id, attempt), None) is not None:
            self._send(AttemptEnded(job_id, attempt, how, cause))  # type: ignore[arg-type]

    def next_end_us(self) -> int | None:
        while self._ends and self._ends[0][2:] not in self.running:
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def end_due(self) -> None:
        while self.next_end_us() is not None and self._ends[0][0] <= self.clock.at_us:
            _, _, job_id, attempt = heapq.heappop(self._ends)
            how = self.ends_as.get(self.running[job_id, attempt].name, "succeeded")
            self.end(job_id, attempt, how, "exit code 1" if how == "failed" else "")

    def _send(self, report: Report) -> None:
        self.report(report)  # type: ignore[operator]


def _open(path: Path) -> Database:
    if not path.exists():
        path.write_bytes(sqlite_schema())
    return Database(path)


class World:
    """Scheduler, store, engine and clock of one test. The test advances time itself."""

    def __init__(self, folder: Path, cluster: Cluster | str = "2x4", database: Database | None = None, **setup) -> None:
        self.database = database or _open(folder / "world.db")
        self.database.migrate()
        with self.database.write() as c:
            if people.tenant(c, "default") is None:
                people.put_tenant(c, TenantRow("default"))
        self.clock = setup.pop("clock", None) or VirtualClock()
        self.engine = setup.pop("engine", None) or ScriptedEngine(self.clock)
        self.cluster = grid(cluster) if isinstance(cluster, str) else cluster
        self.setup = setup
        self.scheduler = self.make()

    def make(self) -> Scheduler:
        """Create a scheduler with this store and engine. A second call simulates a restart."""

        def make_engine(report):
            self.engine.report = report
            return self.engine

        defaults = {"predictor": ByEstimate(), "read_secret": lambda tenant, name: "x"}
        scheduler = Scheduler(
            Setup(database=self.database, clock=self.clock, cluster=self.cluster, make_engine=make_engine,
                  **(defaults | self.setup))  # type: ignore[arg-type]
        )  # fmt: skip
        scheduler.prepare()
        return scheduler

    def submit(self, who: Who = ADA, **file) -> str:
        data = {"command": ["true"], "estimate": 10, "gpus": 1} | file
        return self.scheduler.submit(expand(check(data)), who)[0].id

    def settle(self) -> int:
        """Run scheduler passes until the inbox is empty. Return the time of the next wakeup."""
        wake_us = self.scheduler.step()
        while self.scheduler._context.loop._inbox:
            wake_us = self.scheduler.step()
        return wake_us

    def at(self, now_us: int) -> None:
        self.clock.at_us = now_us
        self.engine.end_due()
        self.settle()

    def state(self, job_id: str) -> str:
        return self.scheduler.row(job_id).state


def kinds(world: World, job_id: str) -> list[str]:
    """Return the kinds of a job's events, in order."""
    with world.database.read() as c:
        return [row.kind for row in events.of_job(c, job_id)]


def last_cause(world: World, job_id: str) -> str:
    """Return the cause of the job's current state."""
    return world.scheduler.row(job_id).cause
