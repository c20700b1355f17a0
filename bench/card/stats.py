"""Percentiles, and confidence intervals of their ratios.

Requests of one block are not independent: one long queue makes all of them late. The bootstrap therefore draws whole
blocks, the same ones for both conditions, because they had the same arrivals minutes apart on the same card.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np
import numpy.typing as npt

DRAWS = 2000
_SEED = 2026
_LEAST_FREE = 3
Blocks = Sequence[npt.NDArray[np.float64]]
Counts = npt.NDArray[np.int64]
"""How often each block was drawn: a row for each draw."""


class Statistic(Protocol):
    """Compute a statistic of all values for each draw, with each block counted as often as it was drawn."""

    def __call__(self, blocks: Blocks, counts: Counts, /) -> npt.NDArray[np.float64]: ...


@dataclass(frozen=True, slots=True)
class Ratio:
    """With its 95 % interval."""

    value: float
    low: float
    high: float
    blocks: int

    @property
    def is_sure(self) -> bool:
        """Fewer than three blocks show nothing about the variation between blocks."""
        return self.blocks >= 3


def percentile(q: float) -> Statistic:
    """The least value with at least this fraction at or below it. Values are sorted once: a draw only changes their
    counts."""

    def drawn(blocks: Blocks, counts: Counts) -> npt.NDArray[np.float64]:
        values = np.concatenate(blocks)
        order = np.argsort(values, kind="stable")
        owners = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])[order]
        values = values[order]
        found = np.empty(len(counts))
        for index, times in enumerate(counts):
            upto = np.cumsum(times[owners])
            found[index] = values[np.searchsorted(upto, q / 100 * upto[-1])]
        return found

    return drawn


def mean(blocks: Blocks, counts: Counts) -> npt.NDArray[np.float64]:
    sums, sizes = np.array([block.sum() for block in blocks]), np.array([len(block) for block in blocks])
    return (counts @ sums) / (counts @ sizes)


def ratio(
    ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]], statistic: Statistic, draws: int = DRAWS
) -> Ratio:
    """The statistic over all blocks of the condition, relative to the base. Block i of both belongs together."""
    if len(ours) != len(base):
        raise ValueError("blocks of both belong together, so there are as many of each")
    kept = [(np.asarray(a, float), np.asarray(b, float)) for a, b in zip(ours, base, strict=True) if len(a) and len(b)]
    if not kept:
        return Ratio(float("nan"), float("nan"), float("nan"), 0)
    once = np.ones((1, len(kept)), np.int64)
    value = float(_ratios(kept, once, statistic)[0])
    if len(kept) < 2:
        return Ratio(value, float("nan"), float("nan"), len(kept))
    rng = np.random.default_rng(_SEED)
    low, high = np.percentile(_ratios(kept, rng.multinomial(len(kept), [1 / len(kept)] * len(kept), draws), statistic),
                              [2.5, 97.5])  # fmt: skip
    return Ratio(value, float(low), float(high), len(kept))


def _ratios(kept: Sequence[tuple], counts: Counts, statistic: Statistic) -> npt.NDArray[np.float64]:
    ours, base = (statistic([pair[side] for pair in kept], counts) for side in (0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.divide(ours, base)


def noise(conditions: Sequence[Sequence[float]]) -> float:
    """Relative difference of the means of two conditions that can occur by chance (95 %). NaN: too few values.

    Value i of every condition belongs to round i. Two or three rounds of one condition show little about the variation
    between rounds. All conditions together do, if each varies by the same fraction. Differences of whole rounds are not
    noise.
    """
    if not conditions or len(conditions[0]) < 2:
        return float("nan")
    logs = np.log(np.asarray(conditions, float))
    rest = logs - logs.mean(axis=0, keepdims=True) - logs.mean(axis=1, keepdims=True) + logs.mean()
    free = (logs.shape[0] - 1) * (logs.shape[1] - 1)
    if free < _LEAST_FREE:
        return float("nan")
    return float(_students(free) * np.sqrt((rest**2).sum() / free * 2 / logs.shape[1]))


def _students(free: int) -> float:
    """Student's t at 97.5 %, by its expansion around the normal distribution: within 2 % from 4 degrees of freedom
    on."""
    z = NormalDist().inv_cdf(0.975)
    return z + (z**3 + z) / (4 * free) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
