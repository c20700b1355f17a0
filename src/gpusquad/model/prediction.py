"""Input and output of predictors. Users of predictions depend on these types, not on the predictors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import exp, log
from typing import Literal, Protocol

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import BRIEF_US, RunTimePrediction

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Quantile levels that every predictor returns."""
NOTHING_KNOWN_US = 1 << 60
"""Run time of a prediction with the source "none"."""
PRIOR = "prior"
"""Source of a prediction that is the same for all jobs of which nothing is known: those of other owners, or the default
that is shipped."""
How = Literal["succeeded", "failed", "timed_out", "cancelled", "preempted", "lost", "running"]
_CUT: frozenset[How] = frozenset({"timed_out", "cancelled", "preempted", "lost", "running"})


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A predicted amount (microseconds, bytes) as a distribution: non-decreasing values at ascending levels."""

    levels: tuple[float, ...]
    values: tuple[int, ...]
    source: str
    """Where it comes from: user, history, prior, similar, analytical, progress, limit …"""
    confidence: float = 0.0
    """Amount of evidence, not the width of the distribution. 0: a guess. 1: as good as measured."""
    mean: float | None = None
    """Mean of such jobs, if it differs from the mean of the values."""

    def __post_init__(self) -> None:
        if not self.levels or len(self.levels) != len(self.values):
            raise Invalid("quantiles", f"{len(self.values)} values for {len(self.levels)} levels")

    def at(self, level: float) -> int:
        """The value at a level, interpolated on a logarithmic scale, because run times vary by factors."""
        levels, values = self.levels, self.values
        right = bisect_left(levels, level)
        if right == 0:
            return values[0]
        if right == len(levels):
            return values[-1]
        part = (level - levels[right - 1]) / (levels[right] - levels[right - 1])
        low, high = values[right - 1], values[right]
        if low < 1 or high == low:
            return round(low + part * (high - low))
        return round(exp(log(low) + part * (log(high) - log(low))))

    def capped(self, most: int) -> Quantiles:
        """The distribution capped at a limit."""
        if self.values[-1] <= most:
            return self
        mean = None if self.mean is None else min(self.mean, most)
        return replace(self, values=tuple(min(v, most) for v in self.values), mean=mean)

    def less(self, done_us: int) -> Quantiles:
        """The distribution of the rest after ``done_us``."""
        mean = None if self.mean is None else max(1.0, self.mean - done_us)
        return replace(self, values=tuple(max(1, value - done_us) for value in self.values), mean=mean)

    def by(self, source: str, confidence: float | None = None) -> Quantiles:
        """The same numbers with another source."""
        return replace(self, source=source, confidence=self.confidence if confidence is None else confidence)


@dataclass(frozen=True, slots=True)
class QuantileLevels:
    """Quantile levels used for planning."""

    shadow: float = 0.5
    """Level at which a running job is assumed to release its cards."""
    candidate: float = 0.9
    """Level for the stay of backfill candidates."""
    reservation: float = 0.9
    """Level for the first reported start of a pending gang, and for all ends while the head has waited too long."""
    careful: float = 0.95
    """Level for the stay of backfill candidates while the head has waited too long."""
    prior: float = 0.3
    """Level for jobs of which only the prior is known. By a high quantile they would never be backfilled. Nothing says
    that they run longer than the jobs ahead, and they are held to this short time. Where they are ahead, their cards
    are assumed to be free by then, so that no job of hours is backfilled on a guess."""

    def __post_init__(self) -> None:
        for name in ("shadow", "candidate", "reservation", "careful", "prior"):
            if not 0 < getattr(self, name) <= 1:
                raise Invalid(
                    name, f"{getattr(self, name)!r} is not a quantile level", "use a number above 0, at most 1"
                )
        if self.candidate < self.shadow:
            raise Invalid(
                "candidate",
                f"{self.candidate} is below the shadow's {self.shadow}",
                "use at least the level of shadow: a backfilled job must not be expected to end sooner",
            )

    def prediction(self, run: Quantiles) -> RunTimePrediction:
        """The prediction for the core."""
        mid_us = max(1, run.at(self.shadow))
        above = zip(run.levels, run.values, strict=True)
        found = RunTimePrediction(
            mid_us=mid_us,
            high_us=max(mid_us, run.at(self.candidate)),
            source=run.source,
            promise_us=max(mid_us, run.at(self.reservation)),
            later_us=tuple(value for level, value in above if level > self.shadow and value > mid_us),
            careful_us=max(mid_us, run.at(self.careful)),
            mean_us=round(mean(run) if run.mean is None else run.mean),
            merit=merit(run),
        )
        return found if run.source != PRIOR else _by_its_word(found, max(1, run.at(self.prior)))

    def forecast(self, run: Quantiles, limit_us: int | None) -> RunTimePrediction:
        """The prediction for the core, within a time limit."""
        found = self.prediction(run)
        return found if limit_us is None else found.within(limit_us)


def _by_its_word(prediction: RunTimePrediction, word_us: int) -> RunTimePrediction:
    """A job of which only the prior is known is expected to take its word. While it runs, it is expected to take as
    long again as it has run. Its median says little, and jobs behind would rely on it."""
    doubled_us = [word_us]
    while doubled_us[-1] < prediction.high_us:
        doubled_us.append(2 * doubled_us[-1])
    return replace(prediction, mid_us=min(word_us, prediction.mid_us), word_us=word_us, later_us=tuple(doubled_us[1:]))


def within_limit(run: Quantiles, limit_us: int | None, middle: float) -> Quantiles | None:
    """A time limit bounds the prediction, and replaces a missing one. None: nothing is known."""
    if limit_us is not None:
        return certain(limit_us, "limit") if run.at(middle) > limit_us else run.capped(limit_us)
    return None if run.at(middle) >= NOTHING_KNOWN_US else run


def mean(run: Quantiles) -> float:
    """Mean of the distribution, each value weighted by the probability nearest to it."""
    return sum(part * max(value, 1) for part, value in _parts(run))


def merit(run: Quantiles) -> float:
    """Expected slowdown added per second of waiting (the mean of 1 / run time, which a chance of a very short run
    raises far more than the median suggests), divided by the expected run time in seconds."""
    slowdown = sum(part * US_PER_S / max(value, BRIEF_US) for part, value in _parts(run))
    return slowdown / mean(run) * US_PER_S


def _parts(run: Quantiles) -> Iterator[tuple[float, int]]:
    """Probability that each value represents."""
    return zip(_part_sizes(run.levels), run.values, strict=True)


@lru_cache(maxsize=64)
def _part_sizes(levels: tuple[float, ...]) -> tuple[float, ...]:
    """Probability nearest to each level."""
    edges = [0.0, *((level + after) / 2 for level, after in pairwise(levels)), 1.0]
    return tuple(above - below for below, above in pairwise(edges))


def certain(value: int, source: str, confidence: float = 0.0) -> Quantiles:
    """A distribution of one value."""
    return Quantiles((0.5,), (value,), source, confidence)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A past run of a job, with its run time."""

    job: Job
    run_us: int
    ended_us: int = 0
    how: How = "succeeded"
    peak_memory_bytes: int | None = None
    """Peak memory on one card."""
    cpu_milli: int | None = None
    """Peak CPU of one task, averaged over a minute."""
    host_memory_bytes: int | None = None
    """Peak main memory of one task."""
    needed_memory_bytes: int = 0
    """Main memory that a task should request next, because one was killed for lack of it. 0: none was."""

    @property
    def was_cut(self) -> bool:
        """Whether the run time is only a lower bound, because the run was cut off or still runs. A failed job ended by
        itself, so its run time counts."""
        return self.how in _CUT


class Predictor(Protocol):
    """Predicts the time that a job will hold its cards.

    Several threads use one predictor. One of them calls ``learn``, ``train`` and (if it can be stored in a file)
    ``dump``, one after the other. The caller holds a lock over each ``learn`` and each ``predict``, so these never
    overlap. It does not hold the lock over ``train``: meanwhile ``predict`` uses the previous model. So build the new
    model separately and swap it in by one assignment at the end."""

    def predict(self, job: Job) -> Quantiles:
        """Predict the run time. Must be fast and must not fail, because every submission calls it."""
        ...

    def begin(self, job: Job, at_us: int) -> None:
        """A job started. Its elapsed time is evidence for similar jobs before it ends."""
        ...

    def learn(self, run: PastRun) -> None:
        """Learn from a finished run. Must be cheap; expensive work belongs in ``train``."""
        ...

    def fit(self, history: Iterable[PastRun]) -> None:
        """Learn from scratch from all past runs, oldest first."""
        ...

    def is_due(self) -> bool:
        """Whether enough was learned since the last ``train``."""
        ...

    def train(self) -> None:
        """The slow part of learning, outside scheduling. ``predict`` may be called meanwhile."""
        ...
