"""Workloads and a launcher with a fake card, for tests with real worker processes and no GPU."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusquad.measure.channel import Channel
from gpusquad.measure.launcher import LocalLauncher
from gpusquad.measure.line_server import serve
from gpusquad.measure.worker import WARM_UP_STEPS
from gpusquad.measure.workloads import Step, Workload

HERE = "tests.measure.fakes"
QUICK, OTHER, HANGS, HEAVY, BROKEN, DIES = (
    f"{HERE}:{name}" for name in ("quick", "other", "hangs", "heavy", "broken", "dies")
)


def _steps(torch: Any, device: str, batch: int) -> Step:
    return lambda: time.sleep(0.0002)


def _hanging_steps(torch: Any, device: str, batch: int) -> Step:
    """Warms up normally, then never finishes a step."""
    warm_up = iter(range(WARM_UP_STEPS))
    return lambda: time.sleep(3600 if next(warm_up, None) is None else 0)


def _out_of_memory(torch: Any, device: str, batch: int) -> Step:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def _raise_error(torch: Any, device: str, batch: int) -> Step:
    raise KeyError("a mistake")


def _end_process(torch: Any, device: str, batch: int) -> Step:
    os._exit(3)


quick = Workload("quick", "sleeps a little", _steps, needs_torch=False)
other = Workload("other", "sleeps a little", _steps, needs_torch=False)
hangs = Workload("hangs", "never ends a step of a window", _hanging_steps, needs_torch=False)
heavy = Workload("heavy", "never has room", _out_of_memory, needs_torch=False)
broken = Workload("broken", "has a mistake", _raise_error, needs_torch=False)
dies = Workload("dies", "ends its process", _end_process, needs_torch=False)


class FakeCardLauncher(LocalLauncher):
    """Starts real processes on this machine with a fake card monitor."""

    def __init__(self, logs: Path) -> None:
        super().__init__(logs)
        self.started: list[tuple[str, dict[str, str]]] = []

    def start(self, label: str, module: str, arguments: Sequence[str], env: Mapping[str, str]) -> Channel:
        self.started.append((label, dict(env)))
        is_monitor = module == "gpusquad.measure.card.monitor"
        return super().start(label, HERE if is_monitor else module, [] if is_monitor else arguments, env)


def _monitor() -> None:
    card = {"gpu": "Fake", "driver": "1", "total_bytes": 2**37, "used_bytes": 0}
    watched = {"utilisation_ratio": 0.5, "bandwidth_ratio": 0.25, "power_w": 100.0, "used_bytes": 0, "counters": {}}
    serve(
        {
            "hello": lambda _: {"pid": os.getpid(), "now_s": time.monotonic(), **card},
            "memory": lambda _: {"used_bytes": 0, "by_process": {}},
            "room": lambda request: {"free_bytes": max(0, request["free_bytes"]), "held_bytes": 0},
            "watch": lambda _: watched,
            "quit": lambda _: {},
        }
    )


if __name__ == "__main__":
    _monitor()
