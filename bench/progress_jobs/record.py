"""Runs a training program as a task runs, observed by the agent's code once per second, and stores the observations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gpusquad.agent.run_files import RunFiles

LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Case:
    """One program, alone or with a neighbour that runs during these spans (seconds after the start)."""

    program: str
    seconds: float
    spans: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.program}+neighbour" if self.spans else self.program


@dataclass(slots=True)
class Recording:
    """Observations and the actual end. All times in microseconds."""

    name: str
    started_us: int
    ended_us: int = 0
    code: int | None = None
    looks: list[tuple[int, int | None, int | None, int | None]] = field(default_factory=list)
    """Time of each observation, and its values: step, total, time of their last change."""
    steps_us: list[int] = field(default_factory=list)
    """When each step really ended."""
    events: list[tuple[int, str]] = field(default_factory=list)
    neighbour: list[tuple[int, str]] = field(default_factory=list)

    @property
    def total(self) -> int | None:
        return next((total for _, _, total, _ in reversed(self.looks) if total is not None), None)

    def dump(self) -> dict:
        return asdict(self)


def load(dumped: dict) -> Recording:
    return Recording(**dumped)


def record(case: Case, total: int | None, cache: str) -> Recording:
    """Run it to its end. ``total``: as many steps as this, so that two runs of a program can be compared."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("logs", "progress"):
            (folder / part).mkdir()
        files = RunFiles(folder)
        neighbour = _Neighbour(case.spans) if case.spans else None
        recording = Recording(case.name, _now_us())
        process = _start(case, total, folder, cache)
        while not _has_ended(process):
            now_us = _now_us()
            seen = files.look(now_us)
            recording.looks.append((now_us, seen.step, seen.total, seen.progress_at_us))
            if neighbour is not None:
                neighbour.look()
        recording.ended_us, recording.code = _now_us(), process.returncode
        if process.returncode:
            print((folder / "errors").read_text()[-3000:], file=sys.stderr)
        if neighbour is not None:
            recording.neighbour = neighbour.end()
        _read_truth(recording, folder / "truth.json")
    return recording


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Waits until the next look is due."""
    try:
        process.wait(LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _start(case: Case, total: int | None, folder: Path, cache: str) -> subprocess.Popen[bytes]:
    # A cache of its own, as a first run has: else the second run of a compiled program has no slow start.
    there = {"GPUSQUAD_PROGRESS": str(folder / "progress" / "0"), "TORCHINDUCTOR_CACHE_DIR": cache,
             "TRITON_CACHE_DIR": f"{cache}/triton", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}  # fmt: skip
    wanted = ["--seconds", str(case.seconds), "--truth", str(folder / "truth.json")]
    if total is not None:
        wanted += ["--total", str(total)]
    with (folder / "logs" / f"0.{0:020d}.log").open("wb") as log, (folder / "errors").open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", f"bench.progress_jobs.{case.program}", *wanted],
            env={**os.environ, **there}, stdout=log, stderr=errors,
        )  # fmt: skip


class _Neighbour:
    """The process beside it, and when it was at work."""

    def __init__(self, spans: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.progress_jobs.neighbour", *spans], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._seen: list[tuple[int, str]] = []

    def look(self) -> None:
        assert self._process.stdout is not None
        said = (self._process.stdout.read() or b"").decode().split()
        self._seen += [(_now_us(), word) for word in said]

    def end(self) -> list[tuple[int, str]]:
        self._process.kill()
        self._process.wait()
        return self._seen


def _read_truth(recording: Recording, path: Path) -> None:
    if path.exists():
        truth = json.loads(path.read_text())
        recording.steps_us = truth["steps_us"]
        recording.events = [(at_us, what) for at_us, what in truth["events"]]


def _now_us() -> int:
    return time.time_ns() // 1000
