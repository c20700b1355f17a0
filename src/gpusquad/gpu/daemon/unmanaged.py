"""Unmanaged processes: processes on the card outside gpusquad's control. They are reported, and a rule applies."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from gpusquad.model.squad import GpuClient

Rule = Literal["report", "refuse", "share"]
RULES: tuple[Rule, ...] = ("report", "refuse", "share")
"""report: show them in the status. refuse: attach no client while there is one. share: leave them a share of the card
like a client of weight 1; that share is not lent."""

SMALL_BYTES = 16 * 2**20
"""Processes with less memory than this are ignored (monitoring tools)."""
STAND_IN_SLOT = 63
"""Slot of the client that stands for all unmanaged processes. No real client has it."""


@dataclass(frozen=True, slots=True)
class UnmanagedProcess:
    """As NVML lists it; the pid is the machine's."""

    pid: int
    name: str = ""
    memory_bytes: int = 0

    @property
    def is_harmless(self) -> bool:
        """Too small, or part of MPS, which computes nothing itself and whose clients are listed separately. The system
        cuts names at 15 characters."""
        return self.name.startswith("nvidia-cuda-mps") or self.memory_bytes < SMALL_BYTES


def unmanaged_processes(listed: Iterable[UnmanagedProcess], ours: Collection[int]) -> tuple[UnmanagedProcess, ...]:
    """``ours``: the machine's pids of clients and of the card's own daemons."""
    return tuple(sorted((one for one in listed if one.pid not in ours), key=lambda one: one.pid))


def named(found: Iterable[UnmanagedProcess]) -> str:
    return ", ".join(f"{one.pid} {one.name}".strip() for one in found)


def stand_in() -> GpuClient:
    return GpuClient(STAND_IN_SLOT, "strangers")
