"""Long series shortened without changing their shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_POINTS = 2000
MAX_MEANS = 240


def thin_steps(at: Sequence[int] | Ints, values: Sequence[int] | Ints, most: int = MAX_POINTS) -> tuple[Ints, Ints]:
    """At most ``most`` points of a step series, all of them original ones.

    Each interval keeps its first, last, lowest and highest point, so that no peak is cut off.
    """
    times, levels = _settled(at, values)
    if len(times) <= most:
        return times, levels
    stretches = most // 4
    edges = np.linspace(times[0], times[-1], stretches + 1)[1:-1]
    stretch = np.searchsorted(edges, times, side="right")
    by_level = np.lexsort((levels, stretch))
    bounds = (
        np.flatnonzero(np.diff(stretch)) + 1
    )  # same result in both orders: intervals contain equal numbers of points
    first, last = np.concatenate(([0], bounds)), np.concatenate((bounds - 1, [len(times) - 1]))
    keep = np.unique(np.concatenate((first, last, by_level[first], by_level[last])))
    return times[keep], levels[keep]


def mean_steps(
    at: Sequence[int] | Ints, values: Sequence[int] | Ints, low: int, high: int, most: int = MAX_MEANS
) -> tuple[Floats, Floats, float]:
    """At most ``most`` time-weighted means of a step series, and the interval of each (0: not averaged)."""
    times, levels = _settled(at, values)
    if not len(times) or high <= low:
        return np.empty(0), np.empty(0), 0.0
    if len(times) <= most:
        return times.astype(np.float64), levels.astype(np.float64), 0.0
    edges = np.linspace(low, high, most + 1)
    knots = np.append(times, max(high, int(times[-1]) + 1))
    area = np.concatenate(([0.0], np.cumsum(levels * np.diff(knots).astype(np.float64))))
    means = np.diff(np.interp(edges, knots, area)) / np.diff(edges)
    return edges[:-1], means, (high - low) / most


def cumulative(values: Floats, most: int = 800) -> tuple[Floats, Floats]:
    """The empirical distribution: sorted values and the fraction of jobs at or below each."""
    if not len(values):
        return np.empty(0), np.empty(0)
    ordered = np.sort(values)
    n = len(ordered)
    keep = np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))
    # Starts at 0 on the first value, so that jobs that all share it show as a rise.
    return np.concatenate((ordered[:1], ordered[keep])), np.concatenate(([0.0], (keep + 1) / n))


def _settled(at: Sequence[int] | Ints, values: Sequence[int] | Ints) -> tuple[Ints, Ints]:
    """One point per instant: of several events at once, the last value stays."""
    times, levels = np.asarray(at, dtype=np.int64), np.asarray(values, dtype=np.int64)
    if len(times) < 2:
        return times, levels
    keep = np.append(times[1:] != times[:-1], True)
    return times[keep], levels[keep]
