"""What a predictor is told and what it answers. Rooms that use predictions know these shapes, not the predictors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import exp, log
from typing import Literal, Protocol

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import BRIEF_US, RunTimePrediction

LEVELS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""The quantiles every predictor gives."""
NOTHING_KNOWN_US = 1 << 60
"""With the source "none"."""
How = Literal["succeeded", "failed", "timed_out", "cancelled", "preempted", "lost", "running"]
_CUT: frozenset[How] = frozenset({"timed_out", "cancelled", "preempted", "lost", "running"})


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A predicted amount (microseconds, bytes) as a distribution: non-decreasing values at growing levels."""

    levels: tuple[float, ...]
    values: tuple[int, ...]
    source: str
    """Who says so: user, history, similar, analytical, progress, limit …"""
    confidence: float = 0.0
    """0: a guess. 1: as good as measured. Says how much evidence stands behind it, not how narrow it is."""
    mean: float | None = None
    """What such jobs take on average, where that is not what the values say."""

    def __post_init__(self) -> None:
        if not self.levels or len(self.levels) != len(self.values):
            raise Invalid("quantiles", f"{len(self.values)} values for {len(self.levels)} levels")

    def at(self, level: float) -> int:
        """The value at a level, between those given along the logarithm: run times spread by factors."""
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
        """Nothing above a limit."""
        if self.values[-1] <= most:
            return self
        mean = None if self.mean is None else min(self.mean, most)
        return replace(self, values=tuple(min(v, most) for v in self.values), mean=mean)

    def less(self, done_us: int) -> Quantiles:
        """What is left when so much is done."""
        mean = None if self.mean is None else max(1.0, self.mean - done_us)
        return replace(self, values=tuple(max(1, value - done_us) for value in self.values), mean=mean)

    def by(self, source: str, confidence: float | None = None) -> Quantiles:
        """The same numbers under another name."""
        return replace(self, source=source, confidence=self.confidence if confidence is None else confidence)


@dataclass(frozen=True, slots=True)
class QuantileLevels:
    """Which quantile is used where."""

    shadow: float = 0.5
    """When a running job's cards are counted on to be free."""
    candidate: float = 0.9
    """How long somebody who wants to slip in is expected to stay."""
    promise: float = 0.9
    """What the start first promised to a waiting gang is made by, and any that is given when patience is over."""
    careful: float = 0.95
    """How long somebody is expected to stay who wants to slip in before a gang whose patience is over."""

    def __post_init__(self) -> None:
        for name in ("shadow", "candidate", "promise", "careful"):
            if not 0 < getattr(self, name) <= 1:
                raise Invalid(name, f"{getattr(self, name)!r} is not a quantile", "use a number above 0, at most 1")
        if self.candidate < self.shadow:
            raise Invalid(
                "candidate",
                f"{self.candidate} is below the shadow's {self.shadow}",
                "who slips in must not be counted on to leave sooner than its cards are counted on",
            )

    def prediction(self, run: Quantiles) -> RunTimePrediction:
        """As the core takes it."""
        mid_us = max(1, run.at(self.shadow))
        above = zip(run.levels, run.values, strict=True)
        return RunTimePrediction(
            mid_us=mid_us,
            high_us=max(mid_us, run.at(self.candidate)),
            source=run.source,
            promise_us=max(mid_us, run.at(self.promise)),
            later_us=tuple(value for level, value in above if level > self.shadow and value > mid_us),
            careful_us=max(mid_us, run.at(self.careful)),
            mean_us=round(mean(run) if run.mean is None else run.mean),
            merit=merit(run),
        )  # fmt: skip


def mean(run: Quantiles) -> float:
    """Of the values at the levels, each for what lies nearest to it."""
    return sum(part * max(value, 1) for part, value in _parts(run))


def merit(run: Quantiles) -> float:
    """Expected slowdown that a second of waiting adds (the mean of one over the run time, which a job that may be over
    at once raises far more than its middle tells), for each second of its expected run time."""
    slowdown = sum(part * US_PER_S / max(value, BRIEF_US) for part, value in _parts(run))
    return slowdown / mean(run) * US_PER_S


def _parts(run: Quantiles) -> Iterator[tuple[float, int]]:
    """How much of the distribution each value stands for."""
    below = 0.0
    for index, (level, value) in enumerate(zip(run.levels, run.values, strict=True)):
        above = (level + run.levels[index + 1]) / 2 if index + 1 < len(run.levels) else 1.0
        yield above - below, value
        below = above


def certain(value: int, source: str, confidence: float = 0.0) -> Quantiles:
    """One number and nothing around it."""
    return Quantiles((0.5,), (value,), source, confidence)


@dataclass(frozen=True, slots=True)
class PastRun:
    """A job that was on its cards, and for how long."""

    job: Job
    run_us: int
    ended_us: int = 0
    how: How = "succeeded"
    peak_memory_bytes: int | None = None
    """The most that any one card held of it."""
    cpu_milli: int | None = None
    """The most CPU any one task used, over a minute."""

    @property
    def was_cut(self) -> bool:
        """Something else ended it (or nothing yet): left alone it would have run longer, nobody knows how much.
        A job that failed has ended by itself: for those who wait for its cards that is its run time."""
        return self.how in _CUT


class Predictor(Protocol):
    """How long a job will be on its cards.

    Several threads use one predictor. ``learn``, ``train`` and (where it can be kept in a file) ``dump`` are called by
    one of them, one after the other; the caller holds a lock over each ``learn`` and each ``predict``, so that these
    never meet. Nobody holds it over ``train``: while that runs, ``predict`` is answered by what was there before. So
    build the new aside and swap it in by one assignment at the end."""

    def predict(self, job: Job) -> Quantiles:
        """Never slow and never failing: it stands on the way of every submission."""
        ...

    def begin(self, job: Job, at_us: int) -> None:
        """It is on its cards now. How long it has been there tells of jobs like it, before it is over."""
        ...

    def learn(self, run: PastRun) -> None:
        """A run is over. Cheap; what takes long waits for ``train``."""
        ...

    def fit(self, history: Iterable[PastRun]) -> None:
        """From nothing, by all that is known, oldest first."""
        ...

    def is_due(self) -> bool:
        """Whether enough was learned for ``train`` to be worth its time."""
        ...

    def train(self) -> None:
        """The slow part of learning, off the path of decisions. ``predict`` may be called meanwhile."""
        ...
