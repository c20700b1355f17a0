"""Options of every bench except ``pairs``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.card.place import Place
from gpusquad.model.errors import Invalid

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

    def among(self, known: Iterable[str]) -> list[str]:
        """Those that are wanted. Invalid: none is."""
        names = list(known)
        found = [name for name in names if not self.only or any(part in name for part in self.only)]
        if not found:
            raise Invalid("only", f"nothing is called {' or '.join(self.only)}", f"choose from {'; '.join(names)}")
        return found
