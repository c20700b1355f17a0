"""Significance of differences between measurements.

Student's t is used, not permutations: five repeats can be flipped in 32 ways, so a permutation test cannot reach a p
below 1 in 16, and corrected for many pairs it could never decide. In return, t requires that means over windows scatter
about normally, which sums over many steps do. If many pairs are tested at once, Holm's method keeps the probability of
even one false alarm below the level, however the pairs are related.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np

from gpusquad.measure.analysis.grid import PairCell, grid
from gpusquad.measure.analysis.student import quantile, two_sided_p
from gpusquad.model.interference import ConfidenceInterval, MeasurementSeries

LEVEL = 0.05
"""Accepted probability of a false alarm, over all tests done together."""
RESOLUTION_RATIO = 0.001
"""Smallest assumed deviation of repeats. Few repeats can agree to the last digit by chance or by rounding, and a
deviation of zero would make everything significant.
"""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean and its uncertainty."""

    mean: float
    error: float
    """The standard error of the mean."""
    freedom: float
    """Degrees of freedom of that error."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The result of a test of two means."""

    mean: float
    low: float
    high: float
    """The 95 % interval of this test alone."""
    p: float
    adjusted_p: float = 1.0
    """Adjusted by Holm's method for all tests done together."""

    @property
    def is_significant(self) -> bool:
        return self.adjusted_p < LEVEL


@dataclass(frozen=True, slots=True)
class Asymmetry:
    """Two different workloads beside each other. The difference is the loss of the first minus that of the second."""

    first: str
    second: str
    loss: Difference

    @property
    def loser(self) -> str:
        return self.first if self.loss.mean > 0 else self.second


@dataclass(frozen=True, slots=True)
class Diagonal:
    """A workload beside a copy of itself. The difference is its loss there minus its mean loss beside the others."""

    workload: str
    others: int
    loss: Difference


def asymmetries(measured: MeasurementSeries) -> list[Asymmetry]:
    """Test for every pair measured at least twice whether one loses more than the other. Both were measured in the same
    windows, so a disturbance of the card affected both. Repeats are therefore compared one by one.
    """
    tested = []
    for one, back in grid(measured).unordered():
        repeats = min(len(one.samples), len(back.samples))
        if repeats >= 2:
            by_repeat = np.array(back.samples[:repeats]) - np.array(one.samples[:repeats])
            tested.append((one, difference(spread(by_repeat.tolist()), MeanEstimate(0.0, 0.0, inf))))
    adjusted = corrected([found for _, found in tested])
    return [Asymmetry(cell.own, cell.other, found) for (cell, _), found in zip(tested, adjusted, strict=True)]


def diagonals(measured: MeasurementSeries) -> list[Diagonal]:
    """Test for every workload whether a copy of itself slows it down more, or less, than the average of others."""
    cells, tested = grid(measured), []
    for name in cells.names:
        twin, others = cells.at(name, name), cells.row(name)
        found = None if twin is None or not others else _against_row(twin, others)
        if found is not None:
            tested.append((name, len(others), found))
    adjusted = corrected([found for *_, found in tested])
    return [Diagonal(name, count, found) for (name, count, _), found in zip(tested, adjusted, strict=True)]


def _against_row(twin: PairCell, others: Sequence[PairCell]) -> Difference | None:
    """Paired repeats. Ratios of one repeat were divided by the same solo speed, so repeats are paired if all have the
    same number.
    """
    repeats = len(twin.samples)
    if repeats >= 2 and all(len(cell.samples) == repeats for cell in others):
        by_repeat = np.mean([cell.samples for cell in others], axis=0) - np.array(twin.samples)
        return difference(spread(by_repeat.tolist()), MeanEstimate(0.0, 0.0, inf))
    own, row = spread_of(twin), [spread_of(cell) for cell in others]
    known = [one for one in row if one is not None]
    return difference(mean_of(known), own) if own is not None and len(known) == len(row) else None


def spread_of(cell: PairCell) -> MeanEstimate | None:
    """From the repeats, or from the interval if repeats were not stored. None: nothing to test."""
    if len(cell.samples) >= 2:
        return spread(cell.samples)
    return None if cell.ratio is None else spread_of_interval(cell.ratio)


def spread(samples: Sequence[float], resolution: float = RESOLUTION_RATIO) -> MeanEstimate:
    """From two or more repeats."""
    deviation = max(float(np.std(samples, ddof=1)), resolution)
    return MeanEstimate(float(np.mean(samples)), deviation / sqrt(len(samples)), len(samples) - 1)


def spread_of_interval(interval: ConfidenceInterval) -> MeanEstimate | None:
    """Recover the standard error from a 95 % interval."""
    half, freedom = (interval.high - interval.low) / 2, interval.repeats - 1
    if freedom < 1 or not isfinite(half):
        return None
    sharpest = RESOLUTION_RATIO * abs(interval.mean) / sqrt(interval.repeats)
    error = max(half / quantile(freedom), sharpest)
    return MeanEstimate(interval.mean, error, freedom) if error > 0 else None


def mean_of(spreads: Sequence[MeanEstimate]) -> MeanEstimate:
    """The mean of several means with equal weights. The cells are fixed, not a sample of similar cells."""
    variances = [one.error**2 / len(spreads) ** 2 for one in spreads]
    mean = sum(one.mean for one in spreads) / len(spreads)
    return MeanEstimate(mean, sqrt(sum(variances)), _freedom(variances, [one.freedom for one in spreads]))


def difference(one: MeanEstimate, other: MeanEstimate) -> Difference:
    """``one`` minus ``other``, with unequal variances (Welch)."""
    variances = [one.error**2, other.error**2]
    error, freedom = sqrt(sum(variances)), _freedom(variances, [one.freedom, other.freedom])
    mean = one.mean - other.mean
    half = quantile(freedom) * error
    p = two_sided_p(mean / error, freedom)
    return Difference(mean, mean - half, mean + half, p, p)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p-values: those below a level are the ones that Holm's procedure rejects at it."""
    adjusted, highest = [1.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """The tests with p-values adjusted for all of them."""
    return [replace(one, adjusted_p=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def _freedom(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Degrees of freedom of a sum of independent variances (Welch and Satterthwaite)."""
    parts = sum(variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))
    return sum(variances) ** 2 / parts
