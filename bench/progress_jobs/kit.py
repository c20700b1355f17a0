"""What the training programs share: their arguments, a note of when each step really ended, and how they speed up."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch  # pyright: ignore[reportMissingImports]

MAX_PAUSE_RATIO = 3.0
"""A program that takes so many times as long as it was meant to gives up, and says so by its exit."""


class Diary:
    """When each step ended and what else happened, in microseconds, written when the program is over."""

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
    """So that a slow card does not hold up what comes after this program."""

    def __init__(self, seconds: float) -> None:
        self._until_s = time.monotonic() + MAX_PAUSE_RATIO * seconds + 60

    def check(self) -> None:
        if time.monotonic() > self._until_s:
            raise SystemExit("took much longer than it was meant to")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long the training itself shall take")
    parser.add_argument("--total", type=int, help="so many steps instead")
    parser.add_argument("--truth", type=Path, help="where the real times of the steps go")
    return parser.parse_args()


def now_us() -> int:
    return time.time_ns() // 1000


def seconds_for(work: Callable[[], object], least_s: float = 0.8) -> float:
    """How long one call takes when it is warm."""
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
