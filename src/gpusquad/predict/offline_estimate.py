"""The run time and the peak of memory that a job file brings with it, from a model of the network for example."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist

from gpusquad.model.job import Job
from gpusquad.model.prediction import LEVELS, Quantiles

USUAL_FACTOR = 1.5
"""From the middle to where nine of ten end, where only the middle is given."""
_WIDEST = 3.0
"""A factor of 47 to either side in eight of ten: beyond that nothing is said any more."""
_NINE_OF_TEN = NormalDist().inv_cdf(0.9)


def expected_run(job: Job, confidence: float = 0.5) -> Quantiles | None:
    """How long the job file says that it runs, for as many GPUs as it asks for; None: it does not say."""
    expected = job.expected
    if expected is None:
        return None
    mid_us = expected.run_us
    if mid_us is None:
        mid_us = dict(expected.by_gpus).get(job.gpus)
    if mid_us is None:
        return None
    high_us = expected.run_high_us if expected.run_high_us is not None else round(mid_us * USUAL_FACTOR)
    return spread(mid_us, high_us, "analytical", confidence)


def expected_peak(job: Job, confidence: float = 0.5) -> Quantiles | None:
    """The most one card will hold by the job file, in bytes. Such a figure is a little wrong both ways."""
    peak_bytes = job.expected.memory_bytes if job.expected is not None else 0
    return spread(peak_bytes, round(peak_bytes * 1.15), "analytical", confidence) if peak_bytes else None


def spread(mid: int, high: int, source: str, confidence: float = 0.0) -> Quantiles:
    """Quantiles through a middle and a ninth tenth, as amounts that vary by factors do (log-normal)."""
    mid, high = max(1, mid), max(1, mid, high)
    sigma = min(log(high / mid) / _NINE_OF_TEN, _WIDEST)
    normal = NormalDist()
    values = tuple(max(1, round(mid * exp(sigma * normal.inv_cdf(level)))) for level in LEVELS)
    return Quantiles(LEVELS, values, source, confidence)
