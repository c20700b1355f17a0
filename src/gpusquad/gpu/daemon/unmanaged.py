"""Processes on the card that belong to no tenant: nothing holds them, so they are told of and treated by a rule."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from gpusquad.model.squad import GpuClient

Rule = Literal["report", "refuse", "share"]
RULES: tuple[Rule, ...] = ("report", "refuse", "share")
"""report: told in the status. refuse: no further tenant is attached while one is there. share: a part of the card is
left to them as to a tenant of weight 1, and nobody is lent that part."""

SMALL_BYTES = 16 * 2**20
"""A process that holds less memory than this is not in anybody's way (monitoring tools)."""
STAND_IN_SLOT = 63
"""No tenant has it: it stands for all strangers together where the card is shared with them."""


@dataclass(frozen=True, slots=True)
class UnmanagedProcess:
    """As the driver's management library lists it; the pid is the machine's."""

    pid: int
    name: str = ""
    memory_bytes: int = 0

    @property
    def is_harmless(self) -> bool:
        """In nobody's way: too small, or of the multi-process service, which computes nothing itself, and its clients
        are listed beside it. The system cuts names at 15 letters."""
        return self.name.startswith("nvidia-cuda-mps") or self.memory_bytes < SMALL_BYTES


def strangers(listed: Iterable[UnmanagedProcess], ours: Collection[int]) -> tuple[UnmanagedProcess, ...]:
    """Those that are no tenant's. ``ours``: the machine's pids of tenants' processes, and of the card's own daemons."""
    return tuple(sorted((one for one in listed if one.pid not in ours), key=lambda one: one.pid))


def named(found: Iterable[UnmanagedProcess]) -> str:
    return ", ".join(f"{one.pid} {one.name}".strip() for one in found)


def stand_in() -> GpuClient:
    return GpuClient(STAND_IN_SLOT, "strangers")
