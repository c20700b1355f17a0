"""One service that is killed many times with kill -9 at chosen points, while jobs keep arriving.

At the end, the ledger that the tasks wrote is compared with the jobs that the service reports.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.crash.dying_service import POINTS
from bench.running import FINAL, RunningService
from gpusquad.client.errors import ApiError, ServiceUnreachable

WORKER = str(Path(__file__).with_name("worker.py"))
OTHERS = ("supervisor", "task", "agent", "server")
"""Processes that are killed from outside at a random instant."""
LONGEST_LIFE_S = 3.0


@dataclass
class Tally:
    """Result of the ledger and of the service at the end."""

    injections: int = 0
    by_point: Counter = field(default_factory=Counter)
    submitted: int = 0
    lost: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    started_twice: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    """Succeeded by the service's word, with a task that never wrote its end."""
    ends: Counter = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.unfinished or self.started_twice or self.overlaps or self.unproven)


class Trial:
    """Jobs of several kinds, under fire."""

    def __init__(self, home: Path, database: str = "", seed: int = 1, cards: int = 8) -> None:
        options = ["--simulate", str(cards), *(["--database", database] if database else [])]
        self.home = home
        self.service = RunningService(home, *options, module=("-m", "bench.crash.dying_service"))
        self.rng = random.Random(seed)
        self.tally = Tally()
        self._keys: dict[str, dict[str, Any]] = {}
        """Every submission by its key, whether it was answered or not."""
        self._ids: dict[str, str] = {}

    def run(self, injections: int, progress: Any = None) -> Tally:
        points = [*POINTS, *OTHERS]
        for number in range(injections):
            point = points[number % len(points)]
            self._life(point)
            self.tally.injections += 1
            self.tally.by_point[point] += 1
            if progress is not None:
                progress(number + 1, injections)
        self._drain()
        self._audit()
        return self.tally

    # -- one run of the service -------------------------------------------------------------------------------------

    def _life(self, point: str) -> None:
        """Start, give it work, and see it die."""
        bomb = {} if point in OTHERS else {"GPUSQUAD_DIES_AT": f"{point}:{self._nth(point)}"}
        self.service.start(environment=bomb)
        deadline = time.monotonic() + LONGEST_LIFE_S
        shooter = self._shoot_later(point) if point in OTHERS else None
        while self.service.is_alive() and time.monotonic() < deadline:
            if not self._work():
                break
        if shooter is not None:
            shooter.join()
        if self.service.is_alive():
            self.service.kill()  # its point was not passed often enough, so kill it now

    def _nth(self, point: str) -> int:
        """Which passing: early ones are the start, later ones the middle of work."""
        return self.rng.randint(1, 25 if point.startswith("write") else 8)

    def _work(self) -> bool:
        """Send a few requests. Return whether it makes sense to continue."""
        assert self.service.process is not None
        try:
            for key in [key for key in self._keys if key not in self._ids]:
                self._send(key)
            if len(self._open()) < 12:
                self._send(self._new_key())
            if self._ids and self.rng.random() < 0.2:
                self._cancel(self.rng.choice(list(self._ids.values())))
        except (ServiceUnreachable, ApiError, OSError):
            return self.service.is_alive()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.service.process.wait(0.05)
        return True

    def _new_key(self) -> str:
        key = f"key-{len(self._keys)}"
        kind = self.rng.random()
        self._keys[key] = {
            "name": key, "gpus": 1 if kind < 0.6 else 2, "count": 2 if kind > 0.4 else 1, "workdir": str(self.home),
            "command": [sys.executable, WORKER, f"{self.rng.uniform(0.05, 0.6):.2f}", "1" if kind > 0.85 else "0"],
            "retries": {"count": 1, "backoff": 0}, "estimate": 5, "checkpoint": {"grace": 0.5},
        }  # fmt: skip
        return key

    def _send(self, key: str) -> None:
        answer = self.service.client.jobs.submit(self._keys[key], key=key)
        self._ids[key] = answer["jobs"][0]["id"]

    def _cancel(self, job_id: str) -> None:
        try:
            self.service.client.jobs.cancel(job_id)
        except ApiError as error:
            if error.status != 409:  # it has already ended
                raise

    def _open(self) -> list[Any]:
        counts = self.service.client.cluster.queue(1)["counts"]
        return [None] * sum(count for state, count in counts.items() if state not in FINAL)

    # -- from outside ----------------------------------------------------------------------------------------------

    def _shoot_later(self, target: str) -> threading.Thread:
        thread = threading.Thread(target=self._shoot, args=(target, self.rng.uniform(0.1, 2.0)), daemon=True)
        thread.start()
        return thread

    def _shoot(self, target: str, after_s: float) -> None:
        time.sleep(after_s)  # the instant is random on purpose
        victims = self._victims(target)
        if victims:
            try:
                os.kill(self.rng.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                return

    def _victims(self, target: str) -> list[int]:
        assert self.service.process is not None
        if target == "server":
            return [self.service.process.pid]
        words = {"agent": b"gpusquad.agent", "supervisor": b"supervisor", "task": b"worker.py"}[target]
        return [pid for pid, line in _processes() if words in line and str(self.home).encode() in _environ(pid, line)]

    # -- at the end ------------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """A last life without a bomb: everything comes to its end."""
        self.service.start().checked()
        for key in [key for key in self._keys if key not in self._ids]:
            self._send(key)
        for job_id in self._ids.values():
            self.service.wait(job_id)

    def _audit(self) -> None:
        tally, client = self.tally, self.service.client
        lines = [line.split() for line in (self.home / "ledger").read_text().splitlines()]
        starts = Counter(tuple(line[1:]) for line in lines if line[0] == "start")
        ended = {tuple(line[1:]) for line in lines if line[0] == "end"}
        tally.started_twice = [" ".join(task) for task, count in starts.items() if count > 1]
        tally.overlaps = [" ".join(line) for line in lines if line[0] == "overlap"]
        tally.submitted = len(self._keys)
        named = Counter(job["name"] for job in client.jobs.find(limit=None)["items"])
        tally.lost = [key for key in self._keys if named[key] == 0]
        tally.started_twice += [f"{key} was taken {named[key]} times" for key in self._keys if named[key] > 1]
        for key, job_id in self._ids.items():
            job = client.jobs.get(job_id)
            tally.ends[job["state"]] += 1
            if job["state"] not in FINAL:
                tally.unfinished.append(key)
            if job["state"] == "succeeded":
                tasks = [(job_id, str(job["attempt"]), str(task)) for task in range(job["tasks"])]
                tally.unproven += [" ".join(task) for task in tasks if task not in ended]


def _processes() -> list[tuple[int, bytes]]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.append((int(name), Path(f"/proc/{name}/cmdline").read_bytes()))
            except OSError:
                continue
    return found


def _environ(pid: int, line: bytes) -> bytes:
    """Whose process it is: its environment or its arguments name the home."""
    try:
        return line + Path(f"/proc/{pid}/environ").read_bytes() + os.readlink(f"/proc/{pid}/cwd").encode()
    except OSError:
        return line


def summary(tally: Tally) -> str:
    return json.dumps({"injections": tally.injections, "points": tally.by_point, "jobs": tally.submitted,
                       "ends": tally.ends, "lost": tally.lost, "twice": tally.started_twice,
                       "overlaps": tally.overlaps, "unproven": tally.unproven})  # fmt: skip
