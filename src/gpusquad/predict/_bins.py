"""Run times in bins that grow by a fixed factor, and distributions over them.

A distribution is stored as *hazards*: of the runs that reached a bin, the fraction that ends in it. A run that was cut
short therefore counts as having reached its bin, and for nothing beyond it.
"""

from __future__ import annotations

from math import log2

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.prediction import LEVELS, NOTHING_KNOWN_US, Quantiles
from gpusquad.model.units import US_PER_S

PER_OCTAVE = 4
COUNT = 24 * PER_OCTAVE
"""From one second to half a year. Shorter and longer run times are in the first and the last bin."""
Floats = NDArray[np.float64]

_EDGES_US = US_PER_S * 2.0 ** (np.arange(COUNT + 1) / PER_OCTAVE)
_LAST_US = int(_EDGES_US[-1])
MIDDLES_US = np.sqrt(_EDGES_US[1:] * _EDGES_US[:-1])


def bin_of(us: int) -> int:
    if us >= _LAST_US:
        return COUNT - 1
    return min(COUNT - 1, int(log2(us / US_PER_S) * PER_OCTAVE)) if us > US_PER_S else 0


def shares(hazards: Floats, last: int | None = None) -> Floats:
    """The fraction of all runs that ends in each bin. ``last``: the bin beyond which no run is known to last."""
    ends = hazards.copy()
    ends[COUNT - 1 if last is None else last :] = 1.0
    reached = np.cumprod(1.0 - ends)
    result = ends
    result[1:] *= reached[:-1]
    return result


def quantiles(part: Floats, source: str, confidence: float, max_us: int | None = None,
              levels: tuple[float, ...] = LEVELS, asked: Floats | None = None) -> Quantiles:  # fmt: skip
    """Values at the levels, interpolated within a bin along its logarithm. ``asked``: levels to look the values up at
    instead, if experience shows that they are calibrated.
    """
    reached = np.cumsum(part)
    wanted = (np.asarray(levels) if asked is None else asked) * reached[-1]
    bins = np.minimum(np.searchsorted(reached, wanted), COUNT - 1)
    below = np.where(bins > 0, reached[bins - 1], 0.0)
    inside = np.clip((wanted - below) / np.maximum(reached[bins] - below, 1e-12), 0.0, 1.0)
    values = _EDGES_US[bins] * (_EDGES_US[bins + 1] / _EDGES_US[bins]) ** inside
    if max_us is not None:
        max_us = min(max(1, max_us), NOTHING_KNOWN_US)
        levels, values = (*levels, 1.0), np.minimum(np.append(values, max_us), max_us)
    return Quantiles(levels, tuple(np.maximum.accumulate(values).astype(np.int64).tolist()), source, confidence)


def spread(run: Quantiles) -> Floats:
    """Quantiles of any source as fractions in bins. What lies outside the given levels fades out over a few bins."""
    bins = np.array([bin_of(value) for value in run.values])
    part = np.full(COUNT, 1e-4)
    below, start = 0.0, max(0, bins[0] - 2 * PER_OCTAVE)
    for level, end in zip(run.levels, bins, strict=True):
        width = max(1, end - start + 1)
        part[start : start + width] += (level - below) / width
        below, start = level, end
    stop = min(COUNT, start + 2 * PER_OCTAVE)
    part[start:stop] += (1.0 - below) / max(1, stop - start)
    return part / part.sum()
