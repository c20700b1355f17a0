"""Where each workload stands among the others, by its own figures beside them."""

from __future__ import annotations

from math import sqrt

import numpy as np

from gpusquad.predict.interference._process import Pairs

STANDS = 4
"""Figures that say where a workload stands."""
_ROUNDS = 30
_FILLINGS, _TRUST = 10, 0.8
_NOTHING = 1e-6


def stands_of(pairs: Pairs, figures: np.ndarray, count: int) -> np.ndarray:
    """Where each workload stands by its own figures: sensitivity and pressure on others (an additive fit, drawn to the
    middle by one figure), and the strongest direction of what these leave over, as own and as other. In usual
    differences between workloads. Two that stand alike here behave alike elsewhere: that is what makes the rows and
    columns a model of low rank and not only a sum."""
    rest = figures - figures.mean()
    own, other = np.zeros(count), np.zeros(count)
    own_count, other_count = (np.bincount(side, minlength=count) + 1.0 for side in pairs)
    for _ in range(_ROUNDS):
        own = np.bincount(pairs.own, rest - other[pairs.other], count) / own_count
        other = np.bincount(pairs.other, rest - own[pairs.own], count) / other_count
    left = np.zeros((count, count))
    left[pairs.own, pairs.other] = rest - own[pairs.own] - other[pairs.other]
    seen = np.zeros((count, count), dtype=bool)
    seen[pairs.own, pairs.other] = True
    sides = [side / max(float(side.std()), 1e-6) for side in (own, other)]
    return np.stack([*sides, *_strongest(left, seen)], axis=1)


def _strongest(left: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first pair of singular vectors, with what was not seen filled in from them, a little less each time."""
    filled, first, second = left, np.zeros(len(left)), np.zeros(len(left))
    for _ in range(_FILLINGS):
        rows, sizes, columns = np.linalg.svd(filled)
        if sizes[0] < _NOTHING:
            return np.zeros(len(left)), np.zeros(len(left))
        first, second = rows[:, 0], columns[0]
        filled = np.where(seen, left, _TRUST * sizes[0] * np.outer(first, second))
    return first * sqrt(len(left)), second * sqrt(len(left))
