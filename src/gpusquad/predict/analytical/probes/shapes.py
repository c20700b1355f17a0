"""Shapes to measure: spread evenly over a range of sizes by a sequence that is the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")
PRIMES = (2, 3, 5, 7, 11, 13, 17)


def halton(index: int, base: int) -> float:
    """The index-th number of the sequence: evenly spread over 0..1, also jointly for several bases."""
    part, value = 1.0, 0.0
    while index > 0:
        part /= base
        value += part * (index % base)
        index //= base
    return value


def spread(index: int, ranges: Sequence[tuple[float, float]]) -> list[float]:
    """A point in a box."""
    return [low + halton(index + 1, PRIMES[axis]) * (high - low) for axis, (low, high) in enumerate(ranges)]


def pick(index: int, axis: int, choices: Sequence[Choice]) -> Choice:
    """One entry of a list. Repeated entries are more likely."""
    return choices[int(halton(index + 1, PRIMES[axis]) * len(choices))]
