"""The prior prediction of a run, given that the run still lasts, and its combination with another prediction."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

from gpusquad.model.prediction import LEVELS, Quantiles

MIN_US = 1000.0
"""Lower bound, because logarithms need a positive number."""
MAX_US = 2.0**62
GUESS_SPREAD = 0.7
"""Spread of the logarithm if the prior is a single number."""
MIN_SPREAD = 0.05
REFUTED = 3.0
"""Standard deviations beyond the median at which the prior is refuted. The remaining time then follows the elapsed
time.
"""
SURE_SPREAD = 0.1
"""Smallest spread of the logarithm that a prior is assumed to have."""
DOUBT = 4.0
"""Squared deviations between the two at which the prior has half its weight, because it describes another kind of run.
"""
_NORMAL = NormalDist()
_DEVIATIONS = tuple(_NORMAL.inv_cdf(level) for level in LEVELS)
_DECILES = LEVELS.index(0.1), LEVELS.index(0.5), LEVELS.index(0.9)
_DECILE_DEVIATIONS = 2 * 1.2816


def remaining_if_running(prior: Quantiles, ran_us: float) -> tuple[float, ...]:
    """The remaining time at ``LEVELS``, of those runs of the prior that last longer than ``ran_us``."""
    points = _points(prior)
    ran_us = max(ran_us, 0.0)
    reached = _deviation(points, log(max(ran_us, MIN_US)))
    values = []
    for level in LEVELS:
        if reached > REFUTED:
            left_us = ran_us * ((1 - level) ** -0.25 - 1)
        else:
            over = (1 - _NORMAL.cdf(reached)) * (1 - level)
            left_us = exp(min(_at(points, -_NORMAL.inv_cdf(over)), 43.0)) - ran_us
        values.append(min(max(left_us, MIN_US), MAX_US))
    return tuple(values)


def blend(own: tuple[float, ...], other: tuple[float, ...], confidence: float) -> tuple[float, ...]:
    """Combine two distributions at ``LEVELS``. The narrower one has more weight. The weight of ``other`` also depends
    on its confidence, and falls if the two contradict each other.
    """
    if confidence <= 0:
        return own
    own_logs, other_logs = ([log(min(max(v, MIN_US), MAX_US)) for v in values] for values in (own, other))
    low, middle, high = _DECILES
    own_spread = max((own_logs[high] - own_logs[low]) / _DECILE_DEVIATIONS, 1e-3)
    other_spread = max((other_logs[high] - other_logs[low]) / _DECILE_DEVIATIONS, SURE_SPREAD)
    apart = (own_logs[middle] - other_logs[middle]) ** 2 / (own_spread**2 + other_spread**2)
    trust = min(confidence, 1.0) / (other_spread**2 * (1 + apart / DOUBT))
    weight = trust / (trust + own_spread**-2)
    centre = (1 - weight) * own_logs[middle] + weight * other_logs[middle]
    # Two distributions that agree are narrower together than each alone, by half of what they would be if they were
    # independent. Two that disagree are wider.
    together = sqrt(1 / (trust + own_spread**-2)) / ((1 - weight) * own_spread + weight * other_spread)
    scale = sqrt(min(together, 1.0) * (1 + weight * (1 - weight) * min(apart, 9.0)))
    mixed = (
        centre + scale * ((1 - weight) * (a - own_logs[middle]) + weight * (b - other_logs[middle]))
        for a, b in zip(own_logs, other_logs, strict=True)
    )
    return tuple(exp(min(value, 43.0)) for value in mixed)


def spread(middle_us: float, below: float, above: float) -> tuple[float, ...]:
    """A distribution at ``LEVELS`` around a median, with a normal logarithm on either side."""
    return tuple(
        middle_us * exp(min(deviation * (below if deviation < 0 else above), 40.0)) for deviation in _DEVIATIONS
    )


def _points(prior: Quantiles) -> list[tuple[float, float]]:
    """Pairs of deviation and logarithm, both ascending."""
    logs = [log(min(max(value, MIN_US), MAX_US)) for value in prior.values]
    points = [
        (_NORMAL.inv_cdf(min(max(level, 1e-6), 1 - 1e-6)), value)
        for level, value in zip(prior.levels, logs, strict=True)
    ]
    if len(points) == 1:
        (deviation, value) = points[0]
        return [(deviation - 1, value - GUESS_SPREAD), (deviation + 1, value + GUESS_SPREAD)]
    rising = points[:1]
    for deviation, value in points[1:]:
        before = rising[-1]
        if deviation > before[0]:
            rising.append((deviation, max(value, before[1] + MIN_SPREAD * (deviation - before[0]))))
    return rising if len(rising) > 1 else [*rising, (rising[0][0] + 1, rising[0][1] + GUESS_SPREAD)]


def _deviation(points: list[tuple[float, float]], value: float) -> float:
    (d0, v0), (d1, v1) = _around([v for _, v in points], points, value)
    return d0 + (value - v0) / (v1 - v0) * (d1 - d0)


def _at(points: list[tuple[float, float]], deviation: float) -> float:
    (d0, v0), (d1, v1) = _around([d for d, _ in points], points, deviation)
    return v0 + (deviation - d0) / (d1 - d0) * (v1 - v0)


def _around(
    keys: list[float], points: list[tuple[float, float]], key: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The two points between which a key lies, or the two at the end that it lies beyond."""
    pairs = list(pairwise(points))
    for index, right in enumerate(keys[1:]):
        if key <= right:
            return pairs[index]
    return pairs[-1]
