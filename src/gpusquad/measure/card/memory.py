"""Room on the card: how much a ballast must hold so that a cell has no more than its limit, and whom to park for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")


def chunks_to_hold(free_bytes: int, held: int, wanted_free_bytes: int, chunk_bytes: int) -> int:
    """How many chunks to hold (``held`` now) so that no more than the wanted bytes are free: rounded towards less."""
    spare_bytes = free_bytes + held * chunk_bytes - wanted_free_bytes
    return max(0, -(-spare_bytes // chunk_bytes))


def free_for(limit_bytes: int, held_by_cell: Sequence[int]) -> int:
    """What must be free besides what the cell's workers hold already, their contexts included. Negative: too little."""
    return limit_bytes - sum(held_by_cell)


def to_park(missing_bytes: int, idle: Mapping[Name, int]) -> list[Name]:
    """Who must give its memory back so that so many bytes more are free; in the order given, no more than needed."""
    parked, found = [], 0
    for name, held_bytes in idle.items():
        if found >= missing_bytes:
            break
        parked.append(name)
        found += held_bytes
    return parked
