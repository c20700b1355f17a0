"""The usual methods to compute the remaining time from a step count. Each gets the agent's observations, once per
second."""

from __future__ import annotations

from collections import deque
from typing import Protocol


class Baseline(Protocol):
    def see(self, at_s: float, step: int) -> None: ...

    def left_s(self, now_s: float, total: int) -> float | None: ...


class Elapsed:
    """Elapsed time divided by completed steps: the simplest method."""

    def __init__(self) -> None:
        self._step = 0

    def see(self, at_s: float, step: int) -> None:
        self._step = step

    def left_s(self, now_s: float, total: int) -> float | None:
        return now_s / self._step * (total - self._step) if self._step else None


class Window:
    """The pace of the last ten seconds."""

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._seen: deque[tuple[float, int]] = deque()

    def see(self, at_s: float, step: int) -> None:
        if not self._seen or step > self._seen[-1][1]:
            self._seen.append((at_s, step))
        while len(self._seen) > 2 and self._seen[0][0] < at_s - self._seconds:
            self._seen.popleft()

    def left_s(self, now_s: float, total: int) -> float | None:
        if len(self._seen) < 2:
            return None
        (first_s, first), (last_s, last) = self._seen[0], self._seen[-1]
        return max((last_s - first_s) / (last - first) * (total - last) - (now_s - last_s), 0.0)


class Smoothed:
    """The pace as progress bars smooth it: every report counts 0.3, all before it 0.7."""

    def __init__(self, smoothing: float = 0.3) -> None:
        self._smoothing = smoothing
        self._last: tuple[float, int] | None = None
        self._seconds = self._steps = 0.0
        self._known = False

    def see(self, at_s: float, step: int) -> None:
        if self._last is not None and step > self._last[1]:
            new = self._smoothing if self._known else 1.0
            self._seconds += new * (at_s - self._last[0] - self._seconds)
            self._steps += new * (step - self._last[1] - self._steps)
            self._known = True
        if self._last is None or step > self._last[1]:
            self._last = (at_s, step)

    def left_s(self, now_s: float, total: int) -> float | None:
        if not self._known or self._last is None:
            return None
        return self._seconds / self._steps * (total - self._last[1])
