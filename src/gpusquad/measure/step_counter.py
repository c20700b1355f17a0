"""Runs steps through a window of time and counts them, including the fractions at both edges."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

IN_FLIGHT = 2
"""Steps queued ahead of the card: enough to keep it busy, few enough to stop in time."""
_SPIN_S = 0.001


@dataclass(frozen=True, slots=True)
class StepWindow:
    """When to start and which interval to count, on CLOCK_MONOTONIC, which the processes of a node share."""

    start_s: float
    lead_in_s: float
    length_s: float
    tail_s: float = 0.05
    """Time to continue after the end, so that no neighbour finishes its last step alone."""

    @property
    def counted_from_s(self) -> float:
        return self.start_s + self.lead_in_s

    @property
    def counted_to_s(self) -> float:
        return self.counted_from_s + self.length_s


class Marks(Protocol):
    """Records when each step was done."""

    def mark(self) -> None:
        """Record a queued step. Blocks while too many are queued."""
        ...

    def drained(self) -> list[float]:
        """Wait for all steps and return the times at which they were done."""
        ...


class HostMarks:
    """For steps that return when they are done."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._done: list[float] = []

    def mark(self) -> None:
        self._done.append(self._clock())

    def drained(self) -> list[float]:
        return list(self._done)


class CudaMarks:
    """For steps that only queue work: the card records the times, relative to an instant that both clocks know."""

    def __init__(self, torch: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._torch = torch
        torch.cuda.synchronize()
        self._base = self._recorded()
        self._base.synchronize()
        self._base_s = clock()
        self._waiting: deque[Any] = deque()
        self._done: list[float] = []

    def mark(self) -> None:
        self._waiting.append(self._recorded())
        while len(self._waiting) > IN_FLIGHT:
            self._record_oldest()

    def drained(self) -> list[float]:
        while self._waiting:
            self._record_oldest()
        return list(self._done)

    def _recorded(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _record_oldest(self) -> None:
        event = self._waiting.popleft()
        event.synchronize()
        self._done.append(self._base_s + self._base.elapsed_time(event) / 1000)


def wait_until(instant_s: float) -> None:
    """Sleep, then spin for the last millisecond, because a sleep wakes late."""
    left_s = instant_s - time.monotonic()
    if left_s > _SPIN_S:
        time.sleep(left_s - _SPIN_S)
    spin_until(instant_s)


def spin_until(instant_s: float) -> None:
    while time.monotonic() < instant_s:
        pass


def run(
    step: Callable[[], None], marks: Marks, window: StepWindow, clock: Callable[[], float] = time.monotonic
) -> float:
    """Run steps from the start to the end of the tail. Returns the number in the counted interval."""
    until_s = window.counted_to_s + window.tail_s
    while True:
        while True:
            step()
            marks.mark()
            if clock() >= until_s:
                break
        done_s = marks.drained()
        if done_s[-1] >= window.counted_to_s:
            return counted(window, done_s)


def counted(window: StepWindow, done_s: Sequence[float]) -> float:
    """Steps within the counted interval. A step progresses linearly from the end of the previous one to its own end.

    A step that ended after the tail partly ran without neighbours, so its end is not used. Its fraction in the window
    is computed from the pace of the steps before it.
    """
    edges = [window.start_s, *done_s]
    low, high = (_progress_at(edges, instant_s) for instant_s in (window.counted_from_s, window.counted_to_s))
    together = bisect_right(edges, window.counted_to_s + window.tail_s) - 1
    last_s = edges[together]
    if window.counted_from_s < last_s < window.counted_to_s:
        pace = (together - low) / (last_s - window.counted_from_s)
        high = together + min(1.0, pace * (window.counted_to_s - last_s))
    return high - low


def _progress_at(edges: Sequence[float], instant_s: float) -> float:
    whole = bisect_right(edges, instant_s)
    if whole == 0:
        return 0.0
    if whole == len(edges):
        return whole - 1.0
    before, after = edges[whole - 1], edges[whole]
    return whole - 1 + (instant_s - before) / (after - before)
