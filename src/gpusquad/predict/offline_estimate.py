"""The run time and peak memory given in a job file, for example from a model of the network."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist

from gpusquad.model.job import Job
from gpusquad.model.prediction import LEVELS, Quantiles

USUAL_FACTOR = 1.5
"""Ratio of P90 to median if only the median is given."""
_WIDEST = 3.0
"""A factor of 47 to either side in eight of ten. Beyond that the estimate carries no information."""
_NINE_OF_TEN = NormalDist().inv_cdf(0.9)


def expected_run(job: Job, confidence: float = 0.5) -> Quantiles | None:
    """The run time in the job file for the requested number of GPUs. None: not given."""
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
    """The peak of one card's memory from the job file, in bytes. Such an estimate errs slightly in both directions."""
    peak_bytes = job.expected.memory_bytes if job.expected is not None else 0
    return spread(peak_bytes, round(peak_bytes * 1.15), "analytical", confidence) if peak_bytes else None


def spread(mid: int, high: int, source: str, confidence: float = 0.0) -> Quantiles:
    """Log-normal quantiles through a median and a P90."""
    mid, high = max(1, mid), max(1, mid, high)
    sigma = min(log(high / mid) / _NINE_OF_TEN, _WIDEST)
    normal = NormalDist()
    values = tuple(max(1, round(mid * exp(sigma * normal.inv_cdf(level)))) for level in LEVELS)
    return Quantiles(LEVELS, values, source, confidence)
