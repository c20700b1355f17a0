"""Coverage of quantiles over time, compared with the coverage of perfect quantiles under random variation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WINDOW = 1000
CHANCES = 20
SEED = 3


@dataclass(frozen=True)
class Kept:
    """Coverage over all windows of ``window`` consecutive jobs, in percentage points."""

    mean_off: float
    worst_off: float
    within: float
    """Part of the windows, in percent."""


def kept(covered: NDArray[np.bool_], level: float, tolerance: float, window: int = WINDOW) -> Kept:
    """``covered``: whether each run ended by its quantile."""
    window = min(window, len(covered))
    sums = np.concatenate(([0.0], np.cumsum(covered)))
    off = np.abs(100 * (sums[window:] - sums[:-window]) / window - 100 * level)
    return Kept(float(off.mean()), float(off.max()), 100 * float((off <= tolerance + 1e-9).mean()))


def by_chance(count: int, level: float, tolerance: float, window: int = WINDOW) -> Kept:
    """The same of coins that fall right with exactly that probability, over several such logs."""
    rng = np.random.default_rng(SEED)
    tries = [kept(rng.random(count) < level, level, tolerance, window) for _ in range(CHANCES)]
    mean_off, worst_off, within = np.mean([(one.mean_off, one.worst_off, one.within) for one in tries], axis=0)
    return Kept(float(mean_off), float(worst_off), float(within))
