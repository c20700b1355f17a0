"""Common code of the training programs: arguments, a record of when each step ended, and warm-up."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]

MAX_PAUSE_RATIO = 3.0
"""A program that takes this many times its intended time exits with an error code."""


class StepRecord:
    """End of each step and other events, in microseconds, written when the program ends."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._steps_us: list[int] = []
        self._events: list[tuple[int, str]] = []

    def step(self) -> None:
        self._steps_us.append(now_us())

    def event(self, what: str) -> None:
        self._events.append((now_us(), what))

    def write(self) -> None:
        if self._path is not None:
            self._path.write_text(json.dumps({"steps_us": self._steps_us, "events": self._events}))


class Deadline:
    """Time limit of a program, so that a slow card does not delay the next one."""

    def __init__(self, seconds: float) -> None:
        self._until_s = time.monotonic() + MAX_PAUSE_RATIO * seconds + 60

    def check(self) -> None:
        if time.monotonic() > self._until_s:
            raise SystemExit("took much longer than it was meant to")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="approximate length of the training")
    parser.add_argument("--total", type=int, help="number of steps, instead of --seconds")
    parser.add_argument("--truth", type=Path, help="file for the actual end times of the steps")
    return parser.parse_args()


def now_us() -> int:
    return time.time_ns() // 1000


def seconds_for(work: Callable[[], object], least_s: float = 0.8) -> float:
    """Time of one call after warm-up."""
    work()
    torch.cuda.synchronize()
    began_s, calls = time.perf_counter(), 0
    while calls < 3 or time.perf_counter() - began_s < least_s:
        work()
        torch.cuda.synchronize()
        calls += 1
    return (time.perf_counter() - began_s) / calls


def fast() -> None:
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
