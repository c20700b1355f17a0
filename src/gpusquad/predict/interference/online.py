"""What running jobs really achieve beside each other: small corrections to what was measured or foretold.

Each ordered pair has an offset, in logarithms, with its variance: a Kalman filter without covariances. What several
neighbours do together is shared out by how uncertain each was. A figure far from what is expected pulls no more than
one at the edge of the usual, so that one outlier moves little and a lasting change is still followed. Old evidence
loses weight with the time that is watched; an offset has limits by what it corrects, so that whoever tells
lies can spoil a measured pair by little.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import Any, NamedTuple

from gpusquad.model.errors import Invalid
from gpusquad.predict.interference.unseen import MOST_RATIO, RateEstimate, Source

FORMAT = 1
MOST_PAIRS = 10_000
"""Those that were not heard of for the longest are forgotten first."""
MOST_FACTOR: dict[Source, float] = {"measured": 1.25, "rows and columns": 2.0, "features": 3.0, "default": 3.0}
"""A rate is corrected by no more than this, up or down."""
_WIDEST = log(max(MOST_FACTOR.values()))
_LEAST_SPREAD = 0.03
"""A pair measured ever so well differs so much between one input and the next."""
_NOISE = 0.05
"""Of a long run, relative: the host, the clock and the input differ."""
_NOISE_OF_A_MINUTE = 0.1
_USUAL = 2.0
"""Standard deviations beyond which a surprise counts as if it were just there."""
_FORGET_S = 7 * 86_400.0
"""After so much watching, what was known is as uncertain as before anything was seen."""


class Key(NamedTuple):
    """An ordered pair on a card."""

    gpu: str
    own: str
    other: str


@dataclass(frozen=True, slots=True)
class Offset:
    """What a pair is corrected by."""

    offset: float = 0.0
    variance: float = 0.0
    seconds: float = 0.0
    """How long it was watched."""


class OnlineCorrections:
    """Corrections by pair. The same figures in the same order give the same state, to the last bit."""

    def __init__(self, most_pairs: int = MOST_PAIRS) -> None:
        self._most = most_pairs
        self._pairs: OrderedDict[Key, Offset] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pairs)

    def get(self, key: Key) -> Offset | None:
        return self._pairs.get(key)

    def corrected(self, key: Key, before: RateEstimate) -> RateEstimate:
        """An estimate with what was seen since."""
        seen = self._pairs.get(key)
        if seen is None or before.rate <= 0.0:
            return before
        limit = log(MOST_FACTOR[before.source])
        rate = min(before.rate * exp(min(max(seen.offset, -limit), limit)), max(MOST_RATIO, before.rate))
        return RateEstimate(rate, min(before.spread, rate * sqrt(seen.variance)), before.source)

    def learn(self, keys: Sequence[Key], before: Sequence[RateEstimate], parts: Sequence[float], expected: float,
              ratio: float, seconds: float) -> None:  # fmt: skip
        """A job ran at ``ratio`` for so long beside those of ``keys``, where ``expected`` was foretold. ``before`` are
        the pairs' uncorrected estimates, ``parts`` how much each counts for the whole."""
        if not (isfinite(ratio) and isfinite(seconds)) or ratio <= 0.0 or seconds <= 0.0 or expected <= 0.0:
            return
        seen = [self._grown(key, estimate, seconds) for key, estimate in zip(keys, before, strict=True)]
        noise = _NOISE**2 + _NOISE_OF_A_MINUTE**2 * 60.0 / seconds
        total = noise + sum(part * part * one.variance for part, one in zip(parts, seen, strict=True))
        surprise = log(min(ratio, MOST_RATIO) / expected)
        surprise = min(max(surprise, -_USUAL * sqrt(total)), _USUAL * sqrt(total))
        for key, estimate, part, one in zip(keys, before, parts, seen, strict=True):
            gain = one.variance * part / total
            limit = min(log(MOST_FACTOR[estimate.source]), _WIDEST)
            offset = min(max(one.offset + gain * surprise, -limit), limit)
            self._keep(key, Offset(offset, one.variance * (1.0 - gain * part), one.seconds + seconds))

    def dump(self) -> dict[str, Any]:
        """Plain data that JSON keeps exactly."""
        return {"format": FORMAT, "pairs": [[*key, one.offset, one.variance, one.seconds]
                                            for key, one in self._pairs.items()]}  # fmt: skip

    @classmethod
    def load(cls, data: object, where: str = "interference", most_pairs: int = MOST_PAIRS) -> OnlineCorrections:
        """What ``dump`` made. Invalid: something else."""
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("pairs"), list):
            raise Invalid(where, f"is not of format {FORMAT}", "remove it: it is learnt again from running jobs")
        result = cls(most_pairs)
        for row in data["pairs"]:
            key, one = _row(row, where)
            result._keep(key, one)
        return result

    def _grown(self, key: Key, estimate: RateEstimate, seconds: float) -> Offset:
        """As uncertain as it is by now."""
        first = max(estimate.spread / estimate.rate, _LEAST_SPREAD) ** 2 if estimate.rate > 0 else _LEAST_SPREAD**2
        old = self._pairs.get(key)
        if old is None:
            return Offset(0.0, first, 0.0)
        return Offset(
            old.offset, min(old.variance + first * seconds / _FORGET_S, max(first, old.variance)), old.seconds
        )

    def _keep(self, key: Key, one: Offset) -> None:
        self._pairs[key] = one
        self._pairs.move_to_end(key)
        while len(self._pairs) > self._most:
            self._pairs.popitem(last=False)


def _row(row: object, where: str) -> tuple[Key, Offset]:
    if not isinstance(row, list) or len(row) != 6 or not all(isinstance(name, str) for name in row[:3]):
        raise Invalid(where, "has a pair that cannot be read", "remove it: it is learnt again from running jobs")
    figures = row[3:]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and isfinite(one) for one in figures):
        raise Invalid(where, "has a figure that is none", "remove it: it is learnt again from running jobs")
    offset, variance, seconds = map(float, figures)
    if abs(offset) > _WIDEST + 1e-9 or variance < 0.0 or seconds < 0.0:
        raise Invalid(where, "has a figure out of its range", "remove it: it is learnt again from running jobs")
    return Key(*row[:3]), Offset(offset, variance, seconds)
