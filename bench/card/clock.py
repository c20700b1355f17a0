"""Time limit of a run, so that it ends by itself before it is killed."""

from __future__ import annotations

import time
from collections.abc import Callable

CLOSING_S = 15.0
"""Workers and daemons are let go within this."""


class Deadline:
    """Counts from its making."""

    def __init__(self, minutes: float, closing_s: float = CLOSING_S, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._until_s = clock() + max(0.0, 60 * minutes - closing_s)

    @property
    def left_s(self) -> float:
        return max(0.0, self._until_s - self._clock())

    def has(self, needed_s: float) -> bool:
        """Return whether a step that takes this long ends in time."""
        return self.left_s >= needed_s
