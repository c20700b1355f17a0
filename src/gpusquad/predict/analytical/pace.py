"""The current pace of the host: the time of a fixed piece of work.

Processors share cores, caches and power with neighbours. Their pace changes from second to second, often by half. The
host cost of a step was calibrated at some pace; this compares the current pace with it. It needs no GPU. The work
resembles issuing ops: the interpreter, and small calls into the framework.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from statistics import mean
from typing import Any

READINGS, UNITS = 10, 4
_TURNS, _CALLS = 1500, 40


def measure(torch: Any, readings: int = READINGS) -> float:
    """Microseconds of the piece of work, measured over some milliseconds."""
    return mean(reading_us(torch) for _ in range(readings))


def reading_us(torch: Any) -> float:
    """The same from one short measurement, whatever the processor did before."""
    unit_us(torch)
    return mean(unit_us(torch) for _ in range(UNITS))


def unit_us(torch: Any) -> float:
    began = time.perf_counter()
    held: dict[int, int] = {}
    total = 0
    for turn in range(_TURNS):
        held[turn & 63] = total
        total += held.get(turn & 31, 1) & 7
    tensor = torch.ones(8, 8)
    for _ in range(_CALLS):
        tensor = torch.relu(tensor)
    return 1e6 * (time.perf_counter() - began)


def processor() -> str:
    """Processor model and number of cores. Paces of different processors are not comparable."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.processor() or platform.machine()}, {os.cpu_count()} cores"
