"""Free memory on the card: the ballast that limits a cell's memory, and the workers to park for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name")


def chunks_to_hold(free_bytes: int, held: int, wanted_free_bytes: int, chunk_bytes: int) -> int:
    """Number of chunks to hold (``held`` now) so that at most the wanted bytes are free. Rounds towards less free
    memory.
    """
    spare_bytes = free_bytes + held * chunk_bytes - wanted_free_bytes
    return max(0, -(-spare_bytes // chunk_bytes))


def free_for(limit_bytes: int, held_by_cell: Sequence[int]) -> int:
    """Bytes that must be free besides what the cell's workers already hold, contexts included. Negative: they hold too
    much.
    """
    return limit_bytes - sum(held_by_cell)


def to_park(missing_bytes: int, idle: Mapping[Name, int]) -> list[Name]:
    """The workers that must release memory to free this many more bytes: in the given order, no more than needed."""
    parked, found = [], 0
    for name, held_bytes in idle.items():
        if found >= missing_bytes:
            break
        parked.append(name)
        found += held_bytes
    return parked
