"""The time that a run may take, so that it ends by itself before somebody ends it."""

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
        """Whether something that takes so long is still over in time."""
        return self.left_s >= needed_s
