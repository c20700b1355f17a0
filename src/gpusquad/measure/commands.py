"""A user's own program as a workload: started by ``build``, stopped and continued around windows.

Its steps are counted by its reports through ``gpusquad.progress``, or by lines of its output. The first group of a
pattern is the step number; without a group each matching line is a step.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from gpusquad._progress import VARIABLE
from gpusquad.measure.line_server import Answer
from gpusquad.measure.step_counter import StepWindow, wait_until

STEP_LINE = r"(?i)\b(?:global[_ ]step|step|iter|iteration|batch)s?\b\D{0,12}(\d{1,12})"
"""Common forms in which programs print their step."""
_WARM_POINTS = 3
_WARM_UP_TIMEOUT_S = 150.0
_POLL_INTERVAL_S = 0.005
_END_TIMEOUT_S = 5.0
_MAX_SILENT_WINDOWS = 10
"""A program that reports nothing for this many window lengths cannot be counted."""


class Command:
    """A ``worker.Runner`` for an argv."""

    def __init__(self, argv: Sequence[str], pattern: str = "") -> None:
        self._argv = list(argv)
        self._pattern = re.compile(pattern or STEP_LINE)
        self._folder = Path(tempfile.mkdtemp(prefix="gpusquad-command-"))
        self._process: subprocess.Popen[str] | None = None
        self._points: list[tuple[float, float]] = []
        """A time, and the steps done by then."""
        self._said: deque[str] = deque(maxlen=20)
        self._listener = threading.Thread()

    def hello(self) -> Answer:
        return {}

    def build(self) -> Answer:
        self.park()
        self._points, reports = [], self._folder / "progress"
        reports.unlink(missing_ok=True)
        self._said.clear()
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, VARIABLE: str(reports)},
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()
        self._wait_for(lambda: len(self._points) >= _WARM_POINTS, time.monotonic() + _WARM_UP_TIMEOUT_S)
        self._signal(signal.SIGSTOP)
        return {"pid": self._process.pid}

    def run(self, window: StepWindow) -> Answer:
        if self._process is None:
            return {"error": "no workload is built"}
        wait_until(window.start_s)
        self._signal(signal.SIGCONT)
        begun = len(self._points)
        try:
            last_s = window.counted_to_s + window.tail_s
            self._wait_for(
                lambda: len(self._points) > begun and self._points[-1][0] >= last_s,
                last_s + _MAX_SILENT_WINDOWS * (window.length_s + 1),
            )
        finally:
            self._signal(signal.SIGSTOP)
        points = [(window.start_s, self._points[begun - 1][1]), *self._points[begun:]]
        return {"steps": done_at(points, window.counted_to_s) - done_at(points, window.counted_from_s)}

    def park(self) -> Answer:
        process, self._process = self._process, None
        if process is not None:
            for sign in (signal.SIGTERM, signal.SIGCONT):
                _signal_group(process, sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_TIMEOUT_S)
            _signal_group(process, signal.SIGKILL)
            process.wait()
        return {}

    def _wait_for(self, condition: Callable[[], bool], until_s: float) -> None:
        while not condition():
            self._read_report()
            assert self._process is not None
            if self._process.poll() is not None:
                self._listener.join(_END_TIMEOUT_S)  # its last output may still be in the pipe
                said = "\n".join(self._said)
                raise RuntimeError(f"the command ended with {self._process.returncode}: {said[-1000:]}")
            if time.monotonic() > until_s:
                raise RuntimeError("the command reports no progress: call gpusquad.progress, or give a pattern")
            time.sleep(_POLL_INTERVAL_S)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        lines = 0
        for line in process.stdout:
            self._said.append(line.rstrip())
            match = self._pattern.search(line)
            if match is not None and process is self._process and not (self._folder / "progress").exists():
                lines += 1
                self._add(time.monotonic(), float(match[1]) if match.re.groups else lines)

    def _read_report(self) -> None:
        try:
            step, _, at_us = (self._folder / "progress").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            return
        self._add(int(at_us) / 1e6 - time.time() + time.monotonic(), float(step))

    def _add(self, at_s: float, steps: float) -> None:
        """Only an increase counts, because the same report is read many times."""
        if not self._points or steps > self._points[-1][1]:
            self._points.append((at_s, steps))

    def _signal(self, sign: int) -> None:
        if self._process is not None:
            _signal_group(self._process, sign)


def done_at(points: Sequence[tuple[float, float]], instant_s: float) -> float:
    """Steps done at a time, linear between two reports. Before the first and after the last, their own count."""
    before = points[0]
    for point in points:
        if point[0] >= instant_s:
            gap_s = point[0] - before[0]
            return point[1] if gap_s <= 0 else before[1] + (point[1] - before[1]) * (instant_s - before[0]) / gap_s
        before = point
    return before[1]


def _signal_group(process: subprocess.Popen[str], sign: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, sign)
