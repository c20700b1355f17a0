"""Jobs end at a rate of ten thousand a minute: passes of the scheduler with notices and without, in turns.

The scheduler, its store and the notices are the real ones, in one process. Only the jobs are none: an engine reports at
a steady rate that they ended. Half of them belong to sweeps. Without notices means without the feed; with a webhook
means that every user has a rule whose channel gets each end.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from bench.claims import claim
from gpusquad.core.ports import AttemptEnded, AttemptStarted, Launch
from gpusquad.model.cluster import grid
from gpusquad.model.sharing_params import SharingParams
from gpusquad.predict.recent import Recent
from gpusquad.server.answers import Who
from gpusquad.server.clock import Clock
from gpusquad.server.ids import new_id
from gpusquad.server.notify.channels import AllowList
from gpusquad.server.notify.feed import NoticeFeed
from gpusquad.server.notify.loop import NoticeLoop
from gpusquad.server.notify.outbox import Outbox
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.server.services.scheduler import Scheduler, Setup
from gpusquad.spec.check import check
from gpusquad.spec.expand import expand
from gpusquad.store import events, inbox, notices, people
from gpusquad.store.database import Database

NAME = "notices"
SUMMARY = "passes of the scheduler while 10,000 jobs a minute end, with notices and without"
JOBS, SPAN_S = 2_500, 15.0
USERS, SWEEP, CLUSTER = 10, 500, "64x8"
ROUNDS = 2
Notices = Literal["none", "inbox", "webhook"]


@dataclass
class _Times:
    """What the scheduler's thread spent in passes."""

    passes_s: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    waited_s: float = 0.0
    """For other writes to the store."""


def run() -> list[dict]:
    trials: dict[Notices, list[_Times]] = {"none": [], "inbox": [], "webhook": []}
    entries: list[int] = []
    for _ in range(ROUNDS):
        for which, times in trials.items():
            with tempfile.TemporaryDirectory() as folder:
                trial = _Trial(Path(folder), which)
                times.append(trial.run())
                if which == "inbox":
                    entries.append(trial.entries)
    base = trials["none"]
    claims = []
    for which, name, bar in (("inbox", "inboxes", 1.25), ("webhook", "inboxes and a webhook", None)):
        times = trials[which]
        waited = sum(one.waited_s for one in times) / sum(sum(one.passes_s) for one in times)
        claims += [
            claim(f"CPU time of passes with {name} / without", _cpu(times) / _cpu(base), "", "lower", bar=bar,
                  baseline=1.0),
            claim(f"time in passes with {name} / without", _total(times) / _total(base), "", "lower", baseline=1.0),
            claim(f"pass with {name}, 99th of 100", _p99(times) * 1e3, "ms", "lower", baseline=_p99(base) * 1e3),
            claim(f"part of it in which a pass waits to write, {name}", 100 * waited, "%", "lower",
                  bar=None if bar is None else 5.0),
        ]  # fmt: skip
    claims.append(claim(f"inbox entries for {JOBS:,} ends", statistics.mean(entries), "", "lower", baseline=JOBS))
    return claims


def _total(times: Sequence[_Times]) -> float:
    return sum(sum(one.passes_s) for one in times)


def _cpu(times: Sequence[_Times]) -> float:
    return sum(one.cpu_s for one in times)


def _p99(times: Sequence[_Times]) -> float:
    """Of the passes of all rounds."""
    return statistics.quantiles([one for each in times for one in each.passes_s], n=100)[98]


@dataclass
class _Engine:
    """Starts gangs at once. ``end_some`` ends those that ran longest."""

    report: Callable[[Any], None]
    running: deque[tuple[str, int]] = field(default_factory=deque)

    def launch(self, launch: Launch) -> None:
        self.report(AttemptStarted(launch.job_id, launch.attempt, (1,)))
        self.running.append((launch.job_id, launch.attempt))

    def end_some(self, count: int) -> int:
        ended = 0
        while ended < count and self.running:
            job_id, attempt = self.running.popleft()
            self.report(AttemptEnded(job_id, attempt, "succeeded", ""))
            ended += 1
        return ended

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None: ...
    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None: ...
    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None: ...
    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        return (0,) * tasks

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None: ...
    def close(self) -> None: ...


class _Trial:
    """One service without its API."""

    def __init__(self, folder: Path, which: Notices) -> None:
        self.entries = 0
        self._which: Notices = which
        self._database = Database(folder / "notices.db")
        self._database.migrate()
        self._clock = Clock()

    def run(self) -> _Times:
        with _webhook() as url:
            self._add_users(url)
            scheduler = Scheduler(Setup(
                database=self._database, clock=self._clock, cluster=grid(CLUSTER), make_engine=self._make_engine,
                predictor=Recent(), read_secret=lambda *_: "", mode="fifo",
            ))  # fmt: skip
            times = _Times()
            _watch_passes(scheduler, times)
            _watch_writes(self._database, times)
            loop = self._notices(scheduler) if self._which != "none" else None
            scheduler.start()
            self._submit(scheduler)
            times.__init__()
            self._end_all()
            while loop is not None and not loop.settle_all():
                time.sleep(0.1)
            scheduler.close()
            if loop is not None:
                loop.stop()
            with self._database.read() as c:
                self.entries = sum(len(inbox.page(c, f"user{n}", limit=JOBS).items) for n in range(USERS))
            self._database.close()
        return times

    def _make_engine(self, report: Callable[[Any], None]) -> Any:
        self._engine = _Engine(report)
        return self._engine

    def _add_users(self, url: str) -> None:
        with self._database.write() as c:
            people.put_tenant(c, people.TenantRow("default"))
            for number in range(USERS):
                people.put_user(c, people.UserRow(f"user{number}", "default"))
                if self._which == "webhook":
                    notices.add_rule(c, f"user{number}", ["finished", "failed"], url, "", 0)

    def _submit(self, scheduler: Scheduler) -> None:
        spec = expand(check({"command": ["true"], "gpus": 1, "estimate": 60, "name": "job"}))[0]
        for start in range(0, JOBS, SWEEP):
            number = start // SWEEP
            who = Who(f"user{number % USERS}", "default", "member")
            if number % 2:
                scheduler.submit([spec] * SWEEP, who, new_id())
            else:
                scheduler.submit([spec] * SWEEP, who, None)

    def _notices(self, scheduler: Scheduler) -> _Loop:
        sender = ChannelSender(AllowList.parse(["json@127.0.0.1"]))
        feed = NoticeFeed(self._database)
        loop = _Loop(Outbox(self._database, sender, self._clock.now_us), sender, feed)
        scheduler.on_event(feed.wake)
        loop.start()
        return loop

    def _end_all(self) -> None:
        """At a steady rate; as fast as jobs start where that is slower."""
        began, ended = time.monotonic(), 0
        while ended < JOBS:
            due = min(JOBS, int((time.monotonic() - began) / SPAN_S * JOBS))
            ended += self._engine.end_some(due - ended)
            time.sleep(0.02)
        with self._database.read() as c:
            before = -1
            while (newest := events.last_id(c)) != before:  # the last ends are stored
                before = newest
                time.sleep(0.5)


class _Loop(NoticeLoop):
    def settle_all(self) -> bool:
        """Whether every event has its notices. Channels may take longer."""
        return self._feed.settle(0.1)


def _watch_passes(scheduler: Scheduler, times: _Times) -> None:
    real = scheduler.context.run_pass

    def timed(items: Any) -> float | None:
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            return real(items)
        finally:
            if items:
                times.passes_s.append(time.perf_counter() - began_s)
                times.cpu_s += time.thread_time() - cpu_s

    scheduler.context.run_pass = timed


def _watch_writes(database: Database, times: _Times) -> None:
    """Measure how long the scheduler waits until nobody else writes."""
    real = database.write

    @contextmanager
    def write():
        began_s = time.perf_counter()
        with real() as connection:
            if threading.current_thread().name == "scheduler":
                times.waited_s += time.perf_counter() - began_s
            yield connection

    database.write = write


@contextmanager
def _webhook():
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"json://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
