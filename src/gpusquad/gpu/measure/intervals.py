"""The mean of a few repeats and how far it may be off, by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpusquad.model.interference import Interval

_QUANTILES = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
    2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
    2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
)  # fmt: skip
"""The 97.5 % quantiles of t for 1 to 30 degrees of freedom."""
_NORMAL = 1.959964


def t_quantile(freedom: int) -> float:
    """97.5 % quantile; beyond the table by the first terms of its series around the normal one."""
    if freedom <= len(_QUANTILES):
        return _QUANTILES[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def interval(samples: Sequence[float]) -> Interval:
    """95 %. One sample says nothing of its spread: the interval is then the mean itself, and ``repeats`` tells."""
    count = len(samples)
    mean = math.fsum(samples) / count
    if count < 2:
        return Interval(mean, mean, mean, count)
    deviation = math.sqrt(math.fsum((one - mean) ** 2 for one in samples) / (count - 1))
    half = t_quantile(count - 1) * deviation / math.sqrt(count)
    return Interval(mean, mean - half, mean + half, count)
