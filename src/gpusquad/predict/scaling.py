"""How the run time of a job changes with its number of GPUs, and how many are worthwhile.

The model is t(n) = t(1) x (serial + (1 - serial) / n + talk x log2 n): a part that GPUs do not shorten, a part that n
GPUs share, and the cost of communication.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, log, log2, sqrt
from statistics import median

from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.predict.offline_estimate import USUAL_FACTOR, spread
from gpusquad.predict.similar_runs import RunSummary

MIN_EFFICIENCY = 0.7
"""Default of the lowest efficiency at which doubling the GPUs is worthwhile."""
SIZES = (1, 2, 4, 8, 16, 32, 64)
_GUESS = (0.1, 0.005)
"""Serial part and communication if nothing is known. They rather underestimate the gain of more GPUs: three of four
networks scale better than this on one node (profiles of Sia, SOSP 2023).
"""
_USUAL = (0.05, 0.002)
"""Prior of the fit if there are runs."""
_USUAL_DOUBT = (0.15, 0.02)
"""Spread of networks around that prior."""
_RUN_DOUBT, _KIND_DOUBT = 0.2, 0.05
"""Error of a single run, and of the median of many, as logarithms."""
_DOUBT_PER_DOUBLING = {"history": 0.2, "analytical": 0.2, "default": 0.3}
_TO_HIGH = 1.28
"""Standard deviations from the median to the P90."""
_SERIAL = tuple(step / 50 for step in range(51))
_TALK = tuple(step / 200 for step in range(61))

Shape = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """Run times by number of GPUs."""

    shape: Shape
    one_us: float
    """With one GPU."""
    source: str
    """Source of the shape: history, analytical, default."""
    confidence: float
    known: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Sizes that were tried or computed: the median in microseconds, and its spread as a logarithm."""
    base: str = "history"
    """Source of those run times."""
    tried: frozenset[int] = frozenset()
    """Sizes at which similar jobs ran."""

    def run(self, gpus: int) -> Quantiles:
        """The run time with this number of GPUs."""
        if gpus in self.known:
            mid_us, sigma = self.known[gpus]
            return spread(round(mid_us), _high(mid_us, sigma), self.base, self.confidence)
        mid_us = self._mid_us(gpus)
        near = min(self.known, key=lambda size: abs(log2(size / gpus)), default=gpus)
        far = _DOUBT_PER_DOUBLING[self.source] * abs(log2(near / gpus))
        sigma = sqrt(far**2 + (self.known[near][1] ** 2 if near in self.known else _RUN_DOUBT**2))
        return spread(round(mid_us), _high(mid_us, sigma), self.source, self.confidence / 2)

    def efficiency(self, gpus: int) -> float:
        """The gain per GPU, relative to one GPU alone."""
        return self._mid_us(1) / (gpus * self._mid_us(gpus))

    def _mid_us(self, gpus: int) -> float:
        return self.known[gpus][0] if gpus in self.known else self.one_us * relative(self.shape, gpus)


def relative(shape: Shape, gpus: int) -> float:
    """The run time relative to that with one GPU."""
    serial, talk = shape
    return serial + (1 - serial) / gpus + talk * log2(gpus)


def curve(job: Job, runs: Sequence[RunSummary], base: Quantiles | None = None) -> Curve | None:
    """The curve from runs at several sizes, else from the job file, else from the default shape. ``base``: the run time
    with the current request, used if neither gives it. None: the run time is unknown.
    """
    seen = _medians(runs)
    expected = {
        gpus: (float(max(1, us)), _expected_sigma(job)) for gpus, us in (job.expected.by_gpus if job.expected else ())
    }
    # One model computed them all. It may be wrong by a factor, but hardly by a different one for each size.
    similar = {gpus: (us, _KIND_DOUBT) for gpus, (us, _) in expected.items()}
    shape_expected = _fit(_points(similar), _USUAL) if len(similar) > 1 else None
    tried = frozenset(seen)
    if len(seen) > 1:
        shape = _fit(_points(seen), shape_expected or _USUAL)
        many = sum(1 for run in runs if run.is_whole)
        return Curve(shape, _one_us(shape, seen), "history", many / (many + 4), seen, tried=tried)
    source, shape = ("analytical", shape_expected) if shape_expected else ("default", _GUESS)
    confidence = 0.4 if shape_expected else 0.1
    if seen:
        return Curve(shape, _one_us(shape, seen), source, confidence, seen, tried=tried)
    if expected:
        return Curve(shape, _one_us(shape, expected), source, confidence, expected, "analytical")
    if base is None or not job.gpus:
        return None
    mid_us = float(max(1, base.at(0.5)))
    known = {job.gpus: (mid_us, log(max(mid_us, base.at(0.9)) / mid_us) / _TO_HIGH)}
    return Curve(shape, _one_us(shape, known), source, confidence, known, base.source)


def worth(found: Curve, most: int, least: int = 1, ratio: float = MIN_EFFICIENCY) -> int:
    """The largest worthwhile number of GPUs, up to ``most``: each GPU brings at least ``ratio`` of what each of the
    smallest possible number does.
    """
    sizes = sorted({least, most, *(size for size in (*SIZES, *found.known) if least <= size <= most)})
    first = found.efficiency(sizes[0])
    best = sizes[0]
    for size in sizes:
        if found.efficiency(size) < ratio * first:
            break
        best = size
    return best


def _medians(runs: Sequence[RunSummary]) -> dict[int, tuple[float, float]]:
    """The median run time of each size and its uncertainty, from completed runs only."""
    by_size: dict[int, list[float]] = {}
    for run in runs:
        if run.is_whole and run.gpus and run.run_us:
            by_size.setdefault(run.gpus, []).append(log(run.run_us))
    found = {}
    for size, logs in sorted(by_size.items()):
        middle = median(logs)
        around = 1.4826 * median(abs(one - middle) for one in logs)
        found[size] = (exp(middle), sqrt(around**2 + _RUN_DOUBT**2 / len(logs) + _KIND_DOUBT**2))
    return found


def _points(known: Mapping[int, tuple[float, float]]) -> tuple[tuple[int, float, float], ...]:
    return tuple((size, log(mid_us), max(sigma, _KIND_DOUBT)) for size, (mid_us, sigma) in sorted(known.items()))


@lru_cache(maxsize=1024)
def _fit(points: tuple[tuple[int, float, float], ...], guess: Shape) -> Shape:
    """The most likely shape near the prior, from a grid search over the two parameters."""
    return min(
        ((serial, talk) for serial in _SERIAL for talk in _TALK), key=lambda shape: _misfit(shape, points, guess)
    )


def _misfit(shape: Shape, points: Sequence[tuple[int, float, float]], guess: Shape) -> float:
    off = [(log_us - log(relative(shape, size)), 1 / sigma**2) for size, log_us, sigma in points]
    level = sum(one * weight for one, weight in off) / sum(weight for _, weight in off)
    far = sum(((at - near) / doubt) ** 2 for at, near, doubt in zip(shape, guess, _USUAL_DOUBT, strict=True))
    return far + sum(weight * (one - level) ** 2 for one, weight in off)


def _one_us(shape: Shape, known: Mapping[int, tuple[float, float]]) -> float:
    weights = {size: 1 / max(sigma, _KIND_DOUBT) ** 2 for size, (_, sigma) in known.items()}
    logs = {size: log(mid_us / relative(shape, size)) for size, (mid_us, _) in known.items()}
    return exp(sum(logs[size] * weights[size] for size in known) / sum(weights.values()))


def _expected_sigma(job: Job) -> float:
    expected = job.expected
    if expected is None or not expected.run_us or not expected.run_high_us:
        return log(USUAL_FACTOR) / _TO_HIGH
    return log(max(expected.run_high_us, expected.run_us) / expected.run_us) / _TO_HIGH


def _high(mid_us: float, sigma: float) -> int:
    return round(mid_us * exp(_TO_HIGH * sigma))
