"""Run times of GPU jobs in general, for a service that has seen none.

Quantiles of the Microsoft Philly trace (82,247 jobs of four months, msr-fiddle/philly-traces, as cut for Pollux and
Sia), for jobs of at most two GPUs and for larger ones.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.model.units import US_PER_S
from gpusquad.predict._bins import COUNT, Floats, spread

SMALL_GPUS = 2
_SMALL_S = (17, 47, 60, 73, 190, 570, 1_100, 1_700, 2_400, 3_700, 8_700, 20_000, 150_000)
_LARGE_S = (30, 80, 160, 540, 2_300, 9_500, 21_000, 49_000, 92_000, 160_000, 240_000, 430_000, 1_000_000)
"""At ``LEVELS``."""


def shipped_hazards(job: Job) -> Floats:
    """Of the runs that reach each bin, the fraction that ends in it."""
    return _hazards(_SMALL_S if job.gpus <= SMALL_GPUS else _LARGE_S)


@lru_cache
def _hazards(values_s: tuple[int, ...]) -> Floats:
    ends = spread(Quantiles(LEVELS, tuple(value * US_PER_S for value in values_s), ""))
    reached = ends[::-1].cumsum()[::-1]
    hazards = np.asarray(ends / reached, dtype=np.float64)
    hazards[COUNT - 1] = 1.0
    hazards.flags.writeable = False
    return hazards
