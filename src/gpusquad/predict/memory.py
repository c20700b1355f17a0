"""Predicts the peak of card memory of a job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from statistics import NormalDist, median
from typing import NamedTuple

from gpusquad.model.job import Job
from gpusquad.model.prediction import LEVELS, Quantiles, certain
from gpusquad.predict.offline_estimate import expected_peak
from gpusquad.predict.similar_runs import MIN_WEIGHT, RunGroup, RunSummary, SimilarRuns

FEW = 2
"""Number of completed runs before they outweigh what the job file expects."""
_DOUBT = 0.25
"""Spread of the logarithm of one run around its kind, until there are enough runs to measure it: a factor of 1.4 in
nine of ten. Similar jobs differ by what gpusquad does not know, above all the batch size.
"""
_FAR = 3.0
"""A run more than this many spreads from the median is treated as an outlier and counts as if it were at that distance.
"""
_MIN_SPREAD = 0.1
_TO_SIGMA = 1.4826
"""From the median absolute deviation to the standard deviation of a normal distribution."""
_NORMAL = NormalDist()


def _card_peak(seen: RunSummary) -> int | None:
    return seen.peak_bytes


class PeakPrediction(NamedTuple):
    """A predicted peak and its evidence."""

    bytes: Quantiles
    group: RunGroup | None
    """None: not from past runs."""
    runs: Sequence[RunSummary]


class PeakMemoryPredictor(SimilarRuns):
    """The peak memory of one card, from runs of the same kind, else from the job file."""

    def predict(self, job: Job) -> Quantiles | None:
        """Bytes. None: no evidence."""
        found = self.peak(job)
        return found.bytes if found is not None else None

    def peak(self, job: Job) -> PeakPrediction | None:
        """Predict with evidence."""
        found = [one for group, runs in self.circles(job) if (one := _peak_of(job, group, runs)) is not None]
        for one in found:
            if sum(seen.is_whole for seen in one.runs) >= FEW:
                return one
        given = expected_peak(job) or _declared(job)
        if given is not None:
            if found and _is_exceeded(given, found[0]):
                return found[0]
            return PeakPrediction(given, None, ())
        return found[0] if found else None


def _is_exceeded(given: Quantiles, found: PeakPrediction) -> bool:
    """Whether a run held more than an expectation allows: it is known to be too small."""
    highest = max(seen.peak_bytes or 0 for seen in found.runs)
    return found.group is not None and found.group.weight >= MIN_WEIGHT and highest > given.values[-1]


def _peak_of(job: Job, group: RunGroup, runs: Sequence[RunSummary]) -> PeakPrediction | None:
    measured = [seen for seen in runs if seen.peak_bytes]
    same_size = [seen for seen in measured if seen.gpus == job.gpus]
    if sum(seen.is_whole for seen in same_size) >= FEW:
        measured = same_size  # a network split over more cards holds less on each
    quantiles = peak_quantiles(measured, group.weight)
    return PeakPrediction(quantiles, group, measured) if quantiles is not None else None


def peak_quantiles(
    runs: Sequence[RunSummary], weight: float = 1.0, peak_of: Callable[[RunSummary], int | None] = _card_peak
) -> Quantiles | None:
    """Quantiles that are robust against a few outliers. A run that was cut short counts only if it held more than the
    completed runs. ``peak_of``: by default of one card's memory.
    """
    whole = [log(peak) for seen in runs if seen.is_whole and (peak := peak_of(seen))]
    cut = [log(peak) for seen in runs if not seen.is_whole and (peak := peak_of(seen))]
    usual = median(whole) if whole else 0.0
    logs = sorted(whole + [one for one in cut if one > usual])
    if not logs:
        return None
    middle = median(logs)
    spread = max(_MIN_SPREAD, _TO_SIGMA * median(abs(one - middle) for one in logs))
    logs = [min(max(one, middle - _FAR * spread), middle + _FAR * spread) for one in logs]
    sigma = sqrt((_TO_SIGMA * median(abs(one - middle) for one in logs)) ** 2 + _DOUBT**2 / len(logs))
    values = [round(exp(middle + sigma * _NORMAL.inv_cdf(level))) for level in LEVELS]
    values = [
        max(value, round(exp(_at(logs, level)))) if level > 0.5 else value
        for level, value in zip(LEVELS, values, strict=True)
    ]
    confidence = weight * len(whole) / (len(whole) + 2)
    return Quantiles(LEVELS, tuple(values), "history", confidence)


def _declared(job: Job) -> Quantiles | None:
    held = job.profile.memory_bytes if job.profile is not None else 0
    return certain(held, "user", 0.2) if held else None


def _at(ordered: Sequence[float], level: float) -> float:
    """Interpolate between the two values around a level."""
    place = level * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
