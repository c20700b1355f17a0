"""Traffic that a busy card receives over its bus. A card that is sent kernels receives more than an idle one.

Each question takes the driver 20 ms, so only cards are asked that look as if a kernel hangs on them, and idle ones from
time to time, for comparison: the measuring itself causes traffic.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable

from gpusquad.agent.nvml_calls import NvmlCard

_BUSY_PERCENT = 95
_LITTLE_POWER = 0.5
"""Fraction of the limit. A card that draws more computes."""
_IDLE_EVERY_S = 20.0
_SAMPLES = 5
_KIB = 1024


class BusTraffic:
    """Per card: the least of the last samples while it was idle, and their median while it was busy."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._idle: dict[str, deque[float]] = {}
        self._busy: dict[str, deque[float]] = {}
        self._idle_asked_s: dict[str, float] = {}

    def see(self, card: str, questions: NvmlCard, counter: int, percent: int | None, power: float | None,
            limit: float | None) -> tuple[float | None, float | None]:  # fmt: skip
        """Bytes per second that it receives now if it is busy, and when it is idle. None: unknown."""
        if percent == 0:
            self._busy.pop(card, None)
            now_s = self._clock_s()
            if now_s - self._idle_asked_s.get(card, float("-inf")) >= _IDLE_EVERY_S:
                self._idle_asked_s[card] = now_s
                self._ask(self._idle, card, questions, counter)
        elif percent is not None and percent >= _BUSY_PERCENT and power is not None and limit is not None:
            if power <= _LITTLE_POWER * limit and self._idle.get(card):
                self._ask(self._busy, card, questions, counter)
            else:
                self._busy.pop(card, None)
        busy, idle = self._busy.get(card), self._idle.get(card)
        return statistics.median(busy) if busy else None, min(idle) if idle else None

    def _ask(self, samples: dict[str, deque[float]], card: str, questions: NvmlCard, counter: int) -> None:
        kib_s = questions.card("nvmlDeviceGetPcieThroughput", counter)
        if kib_s is not None:
            samples.setdefault(card, deque(maxlen=_SAMPLES)).append(float(kib_s) * _KIB)
