"""The mean of a few repeats and its confidence interval by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpusquad.measure.analysis.student import quantile
from gpusquad.model.interference import ConfidenceInterval


def interval(samples: Sequence[float]) -> ConfidenceInterval:
    """The 95 % interval. With one sample the interval is the mean itself, as ``repeats`` shows."""
    count = len(samples)
    mean = math.fsum(samples) / count
    if count < 2:
        return ConfidenceInterval(mean, mean, mean, count)
    deviation = math.sqrt(math.fsum((one - mean) ** 2 for one in samples) / (count - 1))
    half = quantile(count - 1) * deviation / math.sqrt(count)
    return ConfidenceInterval(mean, mean - half, mean + half, count)
