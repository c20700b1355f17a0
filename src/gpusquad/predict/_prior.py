"""What was believed before a run began, given that it still runs; and that belief together with another one."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log, sqrt
from statistics import NormalDist

from gpusquad.model.prediction import LEVELS, Quantiles

LEAST_US = 1000.0
"""Logarithms need something above nothing."""
MOST_US = 2.0**62
GUESS_SPREAD = 0.7
"""Of the logarithm, where somebody gave a single number."""
LEAST_SPREAD = 0.05
REFUTED = 3.0
"""Standard deviations beyond the middle from which a prior knows no more; then it lasts as long as it has lasted."""
SURE_SPREAD = 0.1
"""The least spread of the logarithm that a prior is believed to have, whatever it says."""
DOUBT = 4.0
"""Squared deviations apart at which the prior has half its weight: then it speaks of another kind of run."""
_NORMAL = NormalDist()
_DEVIATIONS = tuple(_NORMAL.inv_cdf(level) for level in LEVELS)
_DECILES = LEVELS.index(0.1), LEVELS.index(0.5), LEVELS.index(0.9)
_DECILE_DEVIATIONS = 2 * 1.2816


def still_running(prior: Quantiles, ran_us: float) -> tuple[float, ...]:
    """The remaining time at ``LEVELS``, of those runs of the prior that last longer than this one has by now."""
    points = _points(prior)
    ran_us = max(ran_us, 0.0)
    reached = _deviation(points, log(max(ran_us, LEAST_US)))
    values = []
    for level in LEVELS:
        if reached > REFUTED:
            left_us = ran_us * ((1 - level) ** -0.25 - 1)
        else:
            over = (1 - _NORMAL.cdf(reached)) * (1 - level)
            left_us = exp(min(_at(points, -_NORMAL.inv_cdf(over)), 43.0)) - ran_us
        values.append(min(max(left_us, LEAST_US), MOST_US))
    return tuple(values)


def blended(own: tuple[float, ...], other: tuple[float, ...], confidence: float) -> tuple[float, ...]:
    """Two distributions at ``LEVELS`` as one: each has the more weight the narrower it is, the other one also by its
    confidence, and less where the two contradict each other."""
    if confidence <= 0:
        return own
    own_logs, other_logs = ([log(min(max(v, LEAST_US), MOST_US)) for v in values] for values in (own, other))
    low, middle, high = _DECILES
    own_spread = max((own_logs[high] - own_logs[low]) / _DECILE_DEVIATIONS, 1e-3)
    other_spread = max((other_logs[high] - other_logs[low]) / _DECILE_DEVIATIONS, SURE_SPREAD)
    apart = (own_logs[middle] - other_logs[middle]) ** 2 / (own_spread**2 + other_spread**2)
    trust = min(confidence, 1.0) / (other_spread**2 * (1 + apart / DOUBT))
    weight = trust / (trust + own_spread**-2)
    centre = (1 - weight) * own_logs[middle] + weight * other_logs[middle]
    # Two that agree are narrower together than each alone (by half of what they would be if they knew nothing of each
    # other), two that do not are wider.
    together = sqrt(1 / (trust + own_spread**-2)) / ((1 - weight) * own_spread + weight * other_spread)
    scale = sqrt(min(together, 1.0) * (1 + weight * (1 - weight) * min(apart, 9.0)))
    mixed = (
        centre + scale * ((1 - weight) * (a - own_logs[middle]) + weight * (b - other_logs[middle]))
        for a, b in zip(own_logs, other_logs, strict=True)
    )
    return tuple(exp(min(value, 43.0)) for value in mixed)


def spread(middle_us: float, below: float, above: float) -> tuple[float, ...]:
    """A distribution at ``LEVELS`` around a middle, its logarithm normal to either side."""
    return tuple(
        middle_us * exp(min(deviation * (below if deviation < 0 else above), 40.0)) for deviation in _DEVIATIONS
    )


def _points(prior: Quantiles) -> list[tuple[float, float]]:
    """Deviation and logarithm, growing in both."""
    logs = [log(min(max(value, LEAST_US), MOST_US)) for value in prior.values]
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
            rising.append((deviation, max(value, before[1] + LEAST_SPREAD * (deviation - before[0]))))
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
    """The two points between which a key lies; the two at the end it lies beyond."""
    pairs = list(pairwise(points))
    for index, right in enumerate(keys[1:]):
        if key <= right:
            return pairs[index]
    return pairs[-1]
