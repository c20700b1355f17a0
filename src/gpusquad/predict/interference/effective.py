"""Effective throughput: ``T_eff[m](s, C) = T_solo[m](s_m) * prod over k of (1 - rho[m,k] * phi(s_m, s_k))``.

All values are relative to the speed alone on the whole card, with one fit per setting. ``rho`` is the loss caused by a
neighbour if neither is restricted, so ``phi(1, 1) = 1``; it is not symmetric. ``T_solo`` is the measured curve.
``phi`` has three parameters for the whole setting, because a few splits cannot determine more, and a physical form:

    phi = w_m * overlap(s_m, s_k) + (1 - w_m) * s_k ** reach,    w_m = base + by_need * need_m, kept in 0..1

- The loss from using the same SMs shrinks with the fraction of the own SMs that the neighbour must use as well,
  ``overlap = max(0, s_m + s_k - 1) / s_m``. With half the card each it is zero.
- The loss from using the same memory and caches remains, and grows with what the neighbour may issue.
- The weight of the two depends on how much a workload needs SMs: ``need`` is the cost of losing half of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product as every
from math import prod

import numpy as np

from gpusquad.model.interference import CoRun, MeasurementSeries
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.predict.interference.combine import ODDS, PRODUCT, USUAL, Combination
from gpusquad.predict.interference.features import sm_need, speed_at
from gpusquad.predict.interference.unseen import UnseenPairs, ratios_of, solo_traits

MAX_RHO = 0.99
"""Upper bound: even beside the worst neighbour, some work is done."""
_STIFF = 0.02
"""Regularisation, worth an error of 2 % per split, so that parameters leave their usual values only for a reason."""
_NEEDED_GAIN = 0.95
"""An interpolation between product and odds must bring the error below this fraction of the better rule's, because it
has one more parameter.
"""
_MIN_TRIPLES = 4
"""Fewer triples than this decide nothing."""


@dataclass(frozen=True, slots=True)
class Phi:
    """How much of the interference between unrestricted neighbours remains when each is given a part of the SMs."""

    base: float = 0.3
    by_need: float = 0.5
    reach: float = 1.0

    def of(self, need: float, own: float, other: float) -> float:
        by_sm = min(max(self.base + self.by_need * need, 0.0), 1.0)
        overlap = max(0.0, own + other - 1.0) / own if own > 0 else 0.0
        return by_sm * overlap + (1.0 - by_sm) * other**self.reach


@dataclass(frozen=True, slots=True)
class Split:
    """One measured side of a pair with parts of the SMs."""

    own: str
    other: str
    own_sm: float
    other_sm: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Errors:
    """|predicted - measured| / measured."""

    median: float
    p90: float
    mean: float
    bias: float
    """The mean with its sign. Above 0, the prediction is too fast."""
    count: int


@dataclass(frozen=True, slots=True)
class Triple:
    """One side of a measured triple, and the prediction from its pairs."""

    workloads: tuple[str, ...]
    """The own workload first."""
    measured: float
    by_product: float
    by_odds: float


@dataclass(frozen=True, slots=True)
class TriplesCheck:
    """How well pairs predict triples."""

    triples: tuple[Triple, ...]
    product: Errors | None
    odds: Errors | None
    between: Errors | None
    """With the weight of each found without the triple that it is tested on."""
    chosen: Combination

    def words(self) -> str:
        if self.product is None or self.odds is None:
            return f"no measured triples; {self.chosen.name} used"
        way = "too slow" if self.product.bias < 0 else "too fast"
        return (
            f"{self.product.count} sides of triples: the product is {abs(self.product.bias):.1%} {way} on average "
            f"(median error {self.product.median:.1%}), the odds {self.odds.bias:+.1%} ({self.odds.median:.1%}); "
            f"{self.chosen.name} taken"
        )


class EffectiveThroughput:
    """``T_eff`` of one setting, fitted to its measurements."""

    def __init__(self, measured: MeasurementSeries, unseen: UnseenPairs | None = None) -> None:
        self._curves = {solo.workload: solo.by_sm for solo in measured.solos}
        self._unseen = unseen or UnseenPairs(ratios_of(measured), solo_traits(measured))
        self._rho = {(one.own, one.other): _clipped(1.0 - one.ratio) for one in ratios_of(measured)}
        self.splits = _splits(measured)
        self.phi = self._fit_phi()
        self._rho.update(self._rho_of_splits())
        self.triples = self._check_triples(measured)
        self.combination = self.triples.chosen

    def solo(self, own: str, sm: float = 1.0) -> float:
        """Speed alone with this fraction of the SMs."""
        curve = self._curves.get(own, ((WHOLE_MILLI, 1.0),))
        return speed_at(curve, sm * WHOLE_MILLI) if sm < 1.0 else 1.0

    def rho(self, own: str, other: str) -> float:
        """What the other takes if neither is restricted: measured, else predicted."""
        found = self._rho.get((own, other))
        if found is None:
            found = self._rho[own, other] = _clipped(1.0 - self._unseen.estimate(own, other).rate)
        return found

    def factor(self, own: str, own_sm: float, other: str, other_sm: float) -> float:
        """``1 - rho * phi``."""
        return 1.0 - _clipped(self.rho(own, other) * self.phi.of(self._need(own), own_sm, other_sm))

    def rate(self, own: str, own_sm: float, others: Sequence[tuple[str, float]]) -> float:
        """Speed with a fraction of the SMs among others with theirs, relative to that alone on the whole card."""
        factors = [self.factor(own, own_sm, other, sm) for other, sm in others]
        return self.solo(own, own_sm) * (self.combination.of(factors) if factors else 1.0)

    def split_errors(self) -> Errors | None:
        """Error on the splits that it was fitted to."""
        actual = [one.ratio for one in self.splits]
        return errors([self.rate(one.own, one.own_sm, [(one.other, one.other_sm)]) for one in self.splits], actual)

    def _need(self, own: str) -> float:
        curve = self._curves.get(own, ())
        return sm_need(curve) if len(curve) > 1 else 0.5

    def _fit_phi(self) -> Phi:
        """A coarse grid search, then a finer one around the best point. Three parameters need no more."""
        if not self.splits:
            return Phi()
        best = min(_grid(Phi(), (0.3, 0.5, 0.5), 5), key=self._misfit)
        return min(_grid(best, (0.1, 0.1, 0.15), 3), key=self._misfit)

    def _misfit(self, phi: Phi) -> float:
        rho = {**self._rho_of_splits(phi), **self._rho}
        usual = Phi()
        total = _STIFF**2 * ((phi.base - usual.base) ** 2 + (phi.by_need - usual.by_need) ** 2
                             + (phi.reach - usual.reach) ** 2)  # fmt: skip
        for one in self.splits:
            left = 1.0 - _clipped(rho[one.own, one.other] * phi.of(self._need(one.own), one.own_sm, one.other_sm))
            total += (self.solo(one.own, one.own_sm) * left - one.ratio) ** 2
        return total

    def _rho_of_splits(self, phi: Phi | None = None) -> dict[tuple[str, str], float]:
        """Pairs that were measured only with parts of the SMs: least squares."""
        phi = phi or self.phi
        sums: dict[tuple[str, str], list[float]] = {}
        for one in self.splits:
            if (one.own, one.other) not in self._rho:
                weight = self.solo(one.own, one.own_sm) * phi.of(self._need(one.own), one.own_sm, one.other_sm)
                lost = self.solo(one.own, one.own_sm) - one.ratio
                both = sums.setdefault((one.own, one.other), [0.0, 0.0])
                both[0] += weight * lost
                both[1] += weight * weight
        return {pair: _clipped(up / down) if down > 0 else 0.0 for pair, (up, down) in sums.items()}

    def _check_triples(self, measured: MeasurementSeries) -> TriplesCheck:
        groups = [group for run in measured.co_runs if (group := self._triple(run))]
        triples = [one for group in groups for one in group]
        if not triples:
            return TriplesCheck((), None, None, None, USUAL)
        actual = [one.measured for one in triples]
        by_product = errors([one.by_product for one in triples], actual)
        by_odds = errors([one.by_odds for one in triples], actual)
        between = errors(_left_out(groups), actual) if len(groups) > 1 else None
        assert by_product is not None
        assert by_odds is not None
        chosen = _choose(groups, by_product, by_odds, between)
        return TriplesCheck(tuple(triples), by_product, by_odds, between, chosen)

    def _triple(self, run: CoRun) -> list[Triple]:
        """Each side of a run of three or more whose pairs were all measured."""
        if len(run.workloads) < 3 or not run.fits:
            return []
        found = []
        for place, own in enumerate(run.workloads):
            others = [other for at, other in enumerate(run.workloads) if at != place]
            shares = [milli / WHOLE_MILLI for milli in run.sm_milli]
            if run.ratios[place].mean <= 0 or any((own, other) not in self._rho for other in others):
                continue
            beside = [share for at, share in enumerate(shares) if at != place]
            factors = [self.factor(own, shares[place], k, s) for k, s in zip(others, beside, strict=True)]
            alone = self.solo(own, shares[place])
            found.append(Triple((own, *others), run.ratios[place].mean, alone * PRODUCT.of(factors),
                                alone * ODDS.of(factors)))  # fmt: skip
        return found


def check_triples(measured: MeasurementSeries) -> TriplesCheck:
    """The error of the product on triples, and whether the odds are better."""
    return EffectiveThroughput(measured).triples


def errors(predicted: Sequence[float], actual: Sequence[float]) -> Errors | None:
    """None: nothing to compare."""
    if not actual:
        return None
    relative = (np.asarray(predicted) - np.asarray(actual)) / np.asarray(actual)
    size = np.abs(relative)
    return Errors(float(np.median(size)), float(np.percentile(size, 90)), float(size.mean()), float(relative.mean()),
                  len(actual))  # fmt: skip


def _choose(groups: Sequence[Sequence[Triple]], product: Errors, odds: Errors,
            between: Errors | None) -> Combination:  # fmt: skip
    if len(groups) < _MIN_TRIPLES:
        return Combination(USUAL.odds_part, f"too few triples measured to decide: {len(groups)}")
    why = f"{len(groups)} measured triples: mean error of the product {product.mean:.1%}, of the odds {odds.mean:.1%}"
    better = 0.0 if product.mean <= odds.mean else 1.0
    if between is not None and between.mean < _NEEDED_GAIN * min(product.mean, odds.mean):
        return Combination(_best_part(groups), f"{why}, between them {between.mean:.1%}")
    return Combination(better, why)


def _left_out(groups: Sequence[Sequence[Triple]]) -> list[float]:
    """Each triple predicted with the weight of the odds that suits the others."""
    found = []
    for at, group in enumerate(groups):
        part = _best_part([other for place, other in enumerate(groups) if place != at])
        found += [_between(one, part) for one in group]
    return found


def _best_part(groups: Iterable[Sequence[Triple]]) -> float:
    triples = [one for group in groups for one in group]

    def cost(part: float) -> float:
        return sum(abs(_between(one, part) / one.measured - 1.0) for one in triples)

    return min((part / 20 for part in range(21)), key=cost)


def _between(triple: Triple, part: float) -> float:
    return triple.by_product ** (1.0 - part) * triple.by_odds**part


def _splits(measured: MeasurementSeries) -> list[Split]:
    return [
        Split(own, other, run.sm_milli[place] / WHOLE_MILLI, run.sm_milli[1 - place] / WHOLE_MILLI,
              run.ratios[place].mean)
        for own, other, run, place in measured.pairs()
        if run.fits and not run.is_unrestricted and prod(run.sm_milli) > 0
    ]  # fmt: skip


def _grid(middle: Phi, steps: tuple[float, float, float], each_way: int) -> Iterable[Phi]:
    ranges = [
        [round(centre + step * at, 3) for at in range(-each_way, each_way + 1)]
        for centre, step in zip((middle.base, middle.by_need, middle.reach), steps, strict=True)
    ]
    for base, by_need, reach in every(*ranges):
        if -1.0 <= base <= 1.0 and -1.0 <= by_need <= 1.5 and 0.0 <= reach <= 3.0:
            yield Phi(base, by_need, reach)


def _clipped(value: float) -> float:
    return min(max(value, 0.0), MAX_RHO)
