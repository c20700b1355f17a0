"""Shapes to measure. Halton sequences spread them evenly over ranges of sizes, equally on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Choice = TypeVar("Choice")
PRIMES = (2, 3, 5, 7, 11, 13, 17)
"""Base of the sequence for each axis, so that axes do not depend on each other."""


def halton(index: int, base: int) -> float:
    """The index-th number of the Halton sequence, in [0, 1). Sequences of several primes are jointly spread evenly."""
    step, value = 1.0, 0.0
    while index > 0:
        step /= base
        value += step * (index % base)
        index //= base
    return value


def spread(index: int, ranges: Sequence[tuple[float, float]]) -> list[float]:
    """The index-th point in the box of ``ranges``, one axis for each range."""
    return [low + halton(index + 1, PRIMES[axis]) * (high - low) for axis, (low, high) in enumerate(ranges)]


def pick(index: int, axis: int, choices: Sequence[Choice]) -> Choice:
    """The index-th choice on an axis. An entry that is listed twice is picked twice as often.

    The axis must differ from those of ``spread`` and of other picks for the same shape.
    """
    return choices[int(halton(index + 1, PRIMES[axis]) * len(choices))]
