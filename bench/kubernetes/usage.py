"""CPU time and memory of processes, from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Of a process and whatever it started that still runs."""

    cpu_s: float
    resident_bytes: int
    peak_bytes: int

    @classmethod
    def of(cls, pid: int) -> Self:
        return cls._sum(_family(pid), with_ended_children=True)

    @classmethod
    def of_self(cls) -> Self:
        """This process only; its child processes are counted separately."""
        return cls._sum([os.getpid()], with_ended_children=False)

    @classmethod
    def _sum(cls, pids: list[int], *, with_ended_children: bool) -> Self:
        return cls(
            sum(_cpu_s(pid, with_ended_children=with_ended_children) for pid in pids),
            sum(_memory_bytes(pid, "VmRSS") for pid in pids),
            sum(_memory_bytes(pid, "VmHWM") for pid in pids),
        )


def _family(pid: int) -> list[int]:
    found = [pid]
    for parent in found:  # grows while it is walked
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def _cpu_s(pid: int, *, with_ended_children: bool) -> float:
    """User and system time. The name before them may hold spaces and brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended_children else 13])) / TICKS_PER_S


def _memory_bytes(pid: int, what: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) * 1024
    return 0
