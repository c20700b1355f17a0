"""Confidence intervals of means over jobs. Jobs of one week share a queue, so the bootstrap draws weeks, not jobs."""

from __future__ import annotations

import numpy as np

from bench._logs import Floats

WEEK_S = 7 * 24 * 3600
DRAWS = 1000
SEED = 20
_EDGES = (2.5, 97.5)

Interval = tuple[float, float]


def mean_interval(submitted_s: Floats, values: Floats) -> Interval:
    """Of the mean, 95 %."""
    return _interval(_drawn_sums(submitted_s, values) / _drawn_sums(submitted_s, np.ones_like(values)))


def ratio_interval(submitted_s: Floats, values: Floats, others: Floats) -> Interval:
    """Of the ratio of two means over the same jobs, 95 %: the same weeks are drawn for both."""
    return _interval(_drawn_sums(submitted_s, values) / _drawn_sums(submitted_s, others))


def _drawn_sums(submitted_s: Floats, values: Floats) -> Floats:
    """One sum a draw; the same weeks each time it is called for the same submissions."""
    week = ((submitted_s - submitted_s.min()) // WEEK_S).astype(np.int64)
    sums = np.bincount(week, values)[np.bincount(week) > 0]
    chosen = np.random.default_rng(SEED).integers(0, len(sums), (DRAWS, len(sums)))
    return sums[chosen].sum(axis=1)


def _interval(drawn: Floats) -> Interval:
    low, high = np.percentile(drawn, _EDGES)
    return float(low), float(high)
