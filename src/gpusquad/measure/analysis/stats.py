"""Which differences between measurements are more than chance.

Student's t is used, not permutations: five repeats can be flipped in 32 ways, so a permutation test can never say less
than 1 in 16, and corrected for many pairs it could never decide. What t asks in return is that means over windows
scatter about normally, which sums over many steps do. Where many pairs are tested at once, Holm's way keeps the chance
of even one false alarm below the level, whatever the pairs have to do with each other.
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
"""The chance of a false alarm that is accepted, over all that is tested together."""
RESOLUTION_RATIO = 0.001
"""No repeat is taken to be sharper than this. Few repeats can agree to the last digit by luck or by rounding, and a
deviation of zero would make anything significant."""


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    """A mean, and how sure it is."""

    mean: float
    error: float
    """The standard error of the mean."""
    freedom: float
    """Degrees of freedom of that error."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a test says of two means."""

    mean: float
    low: float
    high: float
    """The 95 % interval, of this one test by itself."""
    p: float
    adjusted_p: float = 1.0
    """Holm's: after all others that were tested with it."""

    @property
    def is_significant(self) -> bool:
        return self.adjusted_p < LEVEL


@dataclass(frozen=True, slots=True)
class Asymmetry:
    """Two different workloads beside each other. The difference is the loss of the first less that of the second."""

    first: str
    second: str
    loss: Difference

    @property
    def loser(self) -> str:
        return self.first if self.loss.mean > 0 else self.second


@dataclass(frozen=True, slots=True)
class Diagonal:
    """A workload beside its twin. The difference is its loss there less its mean loss beside the others."""

    workload: str
    others: int
    loss: Difference


def asymmetries(measured: MeasurementSeries) -> list[Asymmetry]:
    """Every pair that was measured at least twice: does one lose more than the other?

    Both were measured in the same windows, so what disturbed the card disturbed both: repeats are compared one by one.
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
    """Every workload: does its twin harm it more, or less, than others do in the mean?"""
    cells, tested = grid(measured), []
    for name in cells.names:
        twin, others = cells.at(name, name), cells.row(name)
        found = None if twin is None or not others else _against_row(twin, others)
        if found is not None:
            tested.append((name, len(others), found))
    adjusted = corrected([found for *_, found in tested])
    return [Diagonal(name, count, found) for (name, count, _), found in zip(tested, adjusted, strict=True)]


def _against_row(twin: PairCell, others: Sequence[PairCell]) -> Difference | None:
    """Ratios of one repeat were divided by the same speed alone, so where all have as many, repeat goes with repeat."""
    repeats = len(twin.samples)
    if repeats >= 2 and all(len(cell.samples) == repeats for cell in others):
        by_repeat = np.mean([cell.samples for cell in others], axis=0) - np.array(twin.samples)
        return difference(spread(by_repeat.tolist()), MeanEstimate(0.0, 0.0, inf))
    own, row = spread_of(twin), [spread_of(cell) for cell in others]
    known = [one for one in row if one is not None]
    return difference(mean_of(known), own) if own is not None and len(known) == len(row) else None


def spread_of(cell: PairCell) -> MeanEstimate | None:
    """From the repeats, or from the interval where they were not kept. None: nothing to test with."""
    if len(cell.samples) >= 2:
        return spread(cell.samples)
    return None if cell.ratio is None else spread_of_interval(cell.ratio)


def spread(samples: Sequence[float], resolution: float = RESOLUTION_RATIO) -> MeanEstimate:
    """Of two repeats or more."""
    deviation = max(float(np.std(samples, ddof=1)), resolution)
    return MeanEstimate(float(np.mean(samples)), deviation / sqrt(len(samples)), len(samples) - 1)


def spread_of_interval(interval: ConfidenceInterval) -> MeanEstimate | None:
    """The way back from a 95 % interval to the error it was made from."""
    half, freedom = (interval.high - interval.low) / 2, interval.repeats - 1
    if freedom < 1 or not isfinite(half):
        return None
    sharpest = RESOLUTION_RATIO * abs(interval.mean) / sqrt(interval.repeats)
    error = max(half / quantile(freedom), sharpest)
    return MeanEstimate(interval.mean, error, freedom) if error > 0 else None


def mean_of(spreads: Sequence[MeanEstimate]) -> MeanEstimate:
    """Of several means, each as heavy as the other: these cells are meant, not cells like them."""
    variances = [one.error**2 / len(spreads) ** 2 for one in spreads]
    mean = sum(one.mean for one in spreads) / len(spreads)
    return MeanEstimate(mean, sqrt(sum(variances)), _freedom(variances, [one.freedom for one in spreads]))


def difference(one: MeanEstimate, other: MeanEstimate) -> Difference:
    """``one`` less ``other``, their scatters not taken to be alike (Welch)."""
    variances = [one.error**2, other.error**2]
    error, freedom = sqrt(sum(variances)), _freedom(variances, [one.freedom, other.freedom])
    mean = one.mean - other.mean
    half = quantile(freedom) * error
    p = two_sided_p(mean / error, freedom)
    return Difference(mean, mean - half, mean + half, p, p)


def holm(ps: Sequence[float]) -> list[float]:
    """Each p, such that those below a level are the ones that Holm's procedure rejects at it."""
    adjusted, highest = [1.0] * len(ps), 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def corrected(found: Sequence[Difference]) -> list[Difference]:
    """The same, each knowing that all of them were tested together."""
    return [replace(one, adjusted_p=p) for one, p in zip(found, holm([one.p for one in found]), strict=True)]


def _freedom(variances: Sequence[float], freedoms: Sequence[float]) -> float:
    """Of a sum of independent variances (Welch and Satterthwaite)."""
    parts = sum(variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))
    return sum(variances) ** 2 / parts
