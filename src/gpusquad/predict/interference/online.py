"""Corrects measured or predicted rates by what running jobs actually reach beside each other.

Each ordered pair has an offset, in logarithms, with its variance: a Kalman filter without covariances. The joint effect
of several neighbours is divided among them by their uncertainty. An unexpected value has no more effect than one at the
edge of the usual range, so that one outlier moves little and a lasting change is still followed. Old evidence loses
weight with observation time. The limits of an offset depend on what it corrects, so that false reports can do little
harm to a measured pair.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, sqrt
from typing import Any, NamedTuple

from gpusquad.model.errors import Invalid
from gpusquad.predict.interference.unseen import MAX_RATIO, RateEstimate, Source

FORMAT = 1
MAX_PAIRS = 10_000
"""The pairs observed least recently are evicted first."""
MAX_FACTOR: dict[Source, float] = {"measured": 1.25, "rows and columns": 2.0, "features": 3.0, "default": 3.0}
"""Largest correction factor of a rate, up or down."""
_WIDEST = log(max(MAX_FACTOR.values()))
_MIN_SPREAD = 0.03
"""Even a well measured pair differs by this much from one input to the next."""
_NOISE = 0.05
"""Relative noise of a long run: host, clock and input vary."""
_NOISE_OF_A_MINUTE = 0.1
_USUAL = 2.0
"""Standard deviations to which a deviation is clipped."""
_FORGET_S = 7 * 86_400.0
"""Observation time after which earlier knowledge is as uncertain as at the start."""


class Key(NamedTuple):
    """An ordered pair on a card."""

    gpu: str
    own: str
    other: str


@dataclass(frozen=True, slots=True)
class Offset:
    """The correction of a pair."""

    offset: float = 0.0
    variance: float = 0.0
    seconds: float = 0.0
    """Observation time."""


class OnlineCorrections:
    """Corrections by pair. The same values in the same order give exactly the same state."""

    def __init__(self, max_pairs: int = MAX_PAIRS) -> None:
        self._most = max_pairs
        self._pairs: OrderedDict[Key, Offset] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pairs)

    def get(self, key: Key) -> Offset | None:
        return self._pairs.get(key)

    def corrected(self, key: Key, before: RateEstimate) -> RateEstimate:
        """An estimate with its correction."""
        seen = self._pairs.get(key)
        if seen is None or before.rate <= 0.0:
            return before
        limit = log(MAX_FACTOR[before.source])
        rate = min(before.rate * exp(min(max(seen.offset, -limit), limit)), max(MAX_RATIO, before.rate))
        return RateEstimate(rate, min(before.spread, rate * sqrt(seen.variance)), before.source)

    def learn(self, keys: Sequence[Key], before: Sequence[RateEstimate], parts: Sequence[float], expected: float,
              ratio: float, seconds: float) -> None:  # fmt: skip
        """Learn that a job ran at ``ratio`` for ``seconds`` beside those of ``keys``, where ``expected`` was predicted.

        ``before``: the pairs' uncorrected estimates. ``parts``: the weight of each in the total.
        """
        if not (isfinite(ratio) and isfinite(seconds)) or ratio <= 0.0 or seconds <= 0.0 or expected <= 0.0:
            return
        seen = [self._grown(key, estimate, seconds) for key, estimate in zip(keys, before, strict=True)]
        noise = _NOISE**2 + _NOISE_OF_A_MINUTE**2 * 60.0 / seconds
        total = noise + sum(part * part * one.variance for part, one in zip(parts, seen, strict=True))
        surprise = log(min(ratio, MAX_RATIO) / expected)
        surprise = min(max(surprise, -_USUAL * sqrt(total)), _USUAL * sqrt(total))
        for key, estimate, part, one in zip(keys, before, parts, seen, strict=True):
            gain = one.variance * part / total
            limit = min(log(MAX_FACTOR[estimate.source]), _WIDEST)
            offset = min(max(one.offset + gain * surprise, -limit), limit)
            self._keep(key, Offset(offset, one.variance * (1.0 - gain * part), one.seconds + seconds))

    def dump(self) -> dict[str, Any]:
        """Plain data that JSON represents exactly."""
        return {"format": FORMAT, "pairs": [[*key, one.offset, one.variance, one.seconds]
                                            for key, one in self._pairs.items()]}  # fmt: skip

    @classmethod
    def load(cls, data: object, where: str = "interference", max_pairs: int = MAX_PAIRS) -> OnlineCorrections:
        """Load a ``dump``. Raises Invalid for anything else."""
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("pairs"), list):
            raise Invalid(where, f"is not of format {FORMAT}", "remove it: it is learned again from running jobs")
        result = cls(max_pairs)
        for row in data["pairs"]:
            key, one = _row(row, where)
            result._keep(key, one)
        return result

    def _grown(self, key: Key, estimate: RateEstimate, seconds: float) -> Offset:
        """The correction with its current uncertainty."""
        first = max(estimate.spread / estimate.rate, _MIN_SPREAD) ** 2 if estimate.rate > 0 else _MIN_SPREAD**2
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
        raise Invalid(where, "has an invalid pair", "remove it: it is learned again from running jobs")
    figures = row[3:]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) and isfinite(one) for one in figures):
        raise Invalid(where, "has an invalid number", "remove it: it is learned again from running jobs")
    offset, variance, seconds = map(float, figures)
    if abs(offset) > _WIDEST + 1e-9 or variance < 0.0 or seconds < 0.0:
        raise Invalid(where, "has a number out of range", "remove it: it is learned again from running jobs")
    return Key(*row[:3]), Offset(offset, variance, seconds)
