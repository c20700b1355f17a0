"""What every bench but ``pairs`` is told by whoever calls it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.card.place import Place

REPEATS = 3
"""Of every condition, until it is full."""


@dataclass(frozen=True)
class Asked:
    """Each bench makes its own of it."""

    place: Place
    tiny: bool = False
    length_s: float | None = None
    """Instead of the bench's own: of a block, a run or a job."""
    only: Sequence[str] = ()
    """Parts of names; empty: all."""
    repeats: int = REPEATS
    """Fewer, where all of it is to be seen once before any of it is measured to the end."""

    def wants(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)
