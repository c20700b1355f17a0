"""Predicts how fast a workload runs beside another if the two were never measured together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import Literal

import numpy as np

from gpusquad.model.interference import MeasurementSeries
from gpusquad.predict.interference._process import PairProcess, Pairs, Workloads
from gpusquad.predict.interference._rank import RANK_DIMENSIONS, rank_coordinates
from gpusquad.predict.interference.features import BANDWIDTH, SM_NEED, UTILISATION, Scale, Traits, traits_of

Source = Literal["measured", "rows and columns", "features", "default"]
MAX_RATIO = 1.2
"""Largest valid rate. A neighbour never makes a workload faster: a value slightly above 1 is noise, and more than this
is an error.
"""
MIN_RATIO = 0.01
"""Smallest rate of a pair that fits. Only pairs that do not fit have a rate of 0."""
DEFAULT_RATIO, DEFAULT_SPREAD = 0.66, 0.2
"""Mean and standard deviation of Gavel's V100 pairs that fit together."""
_FEW = 3
"""Minimum number of measured neighbours for a workload's own values to rank it."""
_WIDER = 1.15
"""Factor on spreads from rows and columns: the rank of a workload is uncertain, which the process does not know. With
nine workloads of the public tables 63 % of the actual values were within one spread without it; 68 % should be.
"""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Speed of the own workload beside the other, relative to its speed alone."""

    own: str
    other: str
    ratio: float


@dataclass(frozen=True, slots=True)
class RateEstimate:
    """A rate, its standard error (one standard deviation), and its source."""

    rate: float
    spread: float
    source: Source


def ratios_of(measured: MeasurementSeries) -> list[Ratio]:
    """Pairs on the whole card that fit, each direction once. The mean, if a pair was measured more than once."""
    found: dict[tuple[str, str], list[float]] = {}
    for own, other, run, place in measured.pairs():
        if run.fits and run.is_unrestricted:
            twin = own == other
            figures = [one.mean for one in run.ratios] if twin else [run.ratios[place].mean]
            found.setdefault((own, other), []).extend(figures)
    return [Ratio(own, other, sum(seen) / len(seen)) for (own, other), seen in found.items()]


def solo_traits(measured: MeasurementSeries) -> dict[str, Traits]:
    return {solo.workload: traits_of(solo) for solo in measured.solos}


class UnseenPairs:
    """Predicts rates of pairs from other pairs: by rows and columns if both were measured beside others, else by
    features.
    """

    def __init__(self, ratios: Iterable[Ratio], traits: Mapping[str, Traits]) -> None:
        usable = [one for one in ratios if one.ratio > 0]
        names = dict.fromkeys(name for one in usable for name in (one.own, one.other))
        self._place = {name: at for at, name in enumerate(names)}
        self._beside = Counter(name for one in usable for name in {one.own, one.other})
        self._traits = {name: traits.get(name, Traits()) for name in names}
        self._others = {name: known for name, known in traits.items() if name not in names}
        self._scale = Scale({**self._traits, **self._others})
        self._figures = np.log([max(one.ratio, MIN_RATIO) for one in usable]) if usable else np.zeros(0)
        places = [(self._place[one.own], self._place[one.other]) for one in usable]
        self._pairs = Pairs(
            *(np.array(side, dtype=int) for side in (zip(*places, strict=True) if places else ((), ())))
        )
        self._processes: dict[bool, PairProcess] = {}
        self._ranks = (
            rank_coordinates(self._pairs, self._figures, len(names)) if usable else np.zeros((0, RANK_DIMENSIONS))
        )

    def estimate(self, own: str | Traits, other: str | Traits) -> RateEstimate:
        """A workload by name, or the traits of one without a name."""
        return self.estimates([(own, other)])[0]

    def estimates(self, asked: Sequence[tuple[str | Traits, str | Traits]]) -> list[RateEstimate]:
        """Estimate many pairs at once."""
        results: list[RateEstimate | None] = [None] * len(asked)
        kinds: dict[str, list[int]] = {}
        for at, pair in enumerate(asked):
            kinds.setdefault(self._kind(*pair), []).append(at)
        for kind, places in kinds.items():
            for at, found in zip(places, self._of_kind(kind, [asked[at] for at in places]), strict=True):
                results[at] = found
        return [one for one in results if one is not None]

    @property
    def usual(self) -> RateEstimate:
        """For workloads of which nothing is known."""
        if not self._figures.size:
            return RateEstimate(DEFAULT_RATIO, DEFAULT_SPREAD, "default")
        rates = np.exp(self._figures)
        return RateEstimate(_bounded(float(np.median(rates))), max(float(rates.std()), 0.02), "default")

    def _kind(self, own: str | Traits, other: str | Traits) -> str:
        known = [name in self._place if isinstance(name, str) else False for name in (own, other)]
        if all(known):
            often = min(self._beside[own], self._beside[other])  # pyright: ignore[reportArgumentType]
            return "rows" if often >= _FEW else "few rows"
        traits = [self._traits_of(one).values for one in (own, other)]
        if not self._figures.size:
            return "duty" if all(UTILISATION in values for values in traits) else "default"
        return "features" if all(not values.keys().isdisjoint(self._scale.names) for values in traits) else "default"

    def _of_kind(self, kind: str, asked: Sequence[tuple[str | Traits, str | Traits]]) -> Iterable[RateEstimate]:
        if kind == "default":
            return [self.usual] * len(asked)
        if kind == "duty":
            return [_by_duty(*(self._traits_of(one).values[UTILISATION] for one in pair)) for pair in asked]
        process = self._process(with_ranks=kind == "rows")
        mean, variance = process.predict(*self._points(asked, with_ranks=kind == "rows"))
        source: Source = "features" if kind == "features" else "rows and columns"
        wider = _WIDER**2 if kind == "rows" else 1.0
        return [_estimate(float(m), wider * float(v), source) for m, v in zip(mean, variance, strict=True)]

    def _traits_of(self, one: str | Traits) -> Traits:
        if isinstance(one, Traits):
            return one
        return self._traits.get(one) or self._others.get(one) or Traits()

    def _process(self, with_ranks: bool) -> PairProcess:
        """Created on first use: a table that is only looked up does not need it."""
        if with_ranks not in self._processes:
            workloads = self._workloads(list(self._place), with_ranks)
            self._processes[with_ranks] = PairProcess(workloads, self._pairs, self._figures)
        return self._processes[with_ranks]

    def _points(self, asked: Sequence[tuple[str | Traits, str | Traits]],
                with_ranks: bool) -> tuple[Workloads, Pairs, np.ndarray]:  # fmt: skip
        unique: list[str | Traits] = []
        places: dict[str | int, int] = {}
        for one in (one for pair in asked for one in pair):
            key = one if isinstance(one, str) else id(one)
            if key not in places:
                places[key] = len(unique)
                unique.append(one)
        at = [[places[one if isinstance(one, str) else id(one)] for one in pair] for pair in asked]
        ids = np.array([self._place.get(one, -1) if isinstance(one, str) else -1 for one in unique])
        sides = np.array(at, dtype=int)
        return self._workloads(unique, with_ranks), Pairs(sides[:, 0], sides[:, 1]), ids

    def _workloads(self, which: Sequence[str | Traits], with_ranks: bool) -> Workloads:
        points = np.array([self._scale.point(self._traits_of(one)) for one in which]).reshape(len(which), -1)
        groups = np.array(self._scale.groups, dtype=int)
        sides = [self._scale.in_units(name, points) for name in (UTILISATION, BANDWIDTH, SM_NEED)]
        known = [side for side in sides if side is not None]
        physical = np.stack(known, axis=1) if known else np.zeros((len(which), 0))
        if with_ranks:
            ranks = np.array([self._ranks[self._place[one]] for one in which if isinstance(one, str)])
            points = np.concatenate([points, ranks.reshape(len(which), RANK_DIMENSIONS)], axis=1)
            first = int(groups.max()) + 1 if groups.size else 0
            groups = np.concatenate([groups, first + np.arange(RANK_DIMENSIONS)])
        return Workloads(points, groups, physical)


def _estimate(mean: float, variance: float, source: Source) -> RateEstimate:
    rate = _bounded(exp(mean))
    return RateEstimate(rate, rate * sqrt(variance), source)


def _by_duty(own: float, other: float) -> RateEstimate:
    """Default if no pair was measured: time is divided once the two together need more than the card has."""
    return RateEstimate(_bounded(1.0 / max(1.0, own + other)), DEFAULT_SPREAD, "features")


def _bounded(rate: float) -> float:
    return min(max(rate, MIN_RATIO), MAX_RATIO)
