"""Ranks workloads by their own measured rates beside others."""

from __future__ import annotations

from math import sqrt

import numpy as np

from gpusquad.predict.interference._process import Pairs

RANK_DIMENSIONS = 4
"""Number of values that give a workload its rank."""
_ROUNDS = 30
_FILLINGS, _TRUST = 10, 0.8
_NOTHING = 1e-6


def rank_coordinates(pairs: Pairs, figures: np.ndarray, count: int) -> np.ndarray:
    """The coordinates of each workload by its own values.

    They are sensitivity and pressure on others (an additive fit, shrunk to the mean by one value), and the strongest
    direction of the residuals, as own and as other. The unit is the usual difference between workloads. Workloads with
    similar coordinates behave alike elsewhere, so rows and columns form a model of low rank and not only a sum.
    """
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
    """The first pair of singular vectors. Missing values are filled in from them, with less effect each time."""
    filled, first, second = left, np.zeros(len(left)), np.zeros(len(left))
    for _ in range(_FILLINGS):
        rows, sizes, columns = np.linalg.svd(filled)
        if sizes[0] < _NOTHING:
            return np.zeros(len(left)), np.zeros(len(left))
        first, second = rows[:, 0], columns[0]
        filled = np.where(seen, left, _TRUST * sizes[0] * np.outer(first, second))
    return first * sqrt(len(left)), second * sqrt(len(left))
