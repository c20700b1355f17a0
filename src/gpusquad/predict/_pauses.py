"""Predicts when a run pauses (evaluations, checkpoints), for how long, and how often until its end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf, sqrt

EARLY_RATIO = 0.03
"""A pause within this fraction of the steps probably belongs to the start and does not recur."""
DENSER = 1.5
"""Largest density of future pauses, as a multiple of the density so far, whatever their period."""
MAX_PAUSE_RATIO = 5.0
"""A pause longer than this multiple of the median was an accident (the machine was suspended)."""
MISSED_RATIO = 0.2
"""Fraction of the pauses that may be missing from a period."""
ONCE_DOUBT, IRREGULAR_DOUBT = 0.5, 0.3
"""Relative uncertainty of future pauses if only one was seen, and if they are irregular."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Time without steps, somewhere between two reports."""

    start: float
    end: float
    us: float


@dataclass(frozen=True, slots=True)
class FuturePauses:
    """The future pauses."""

    us: float
    spread_us: float
    one_us: float
    """Time of one pause. 0: no pause is known."""
    is_due: bool
    """A pause is expected at the current step."""


def predict_pauses(
    pauses: list[Pause], step: float, total: float, between: float, density: float, busy_us: float
) -> FuturePauses:
    """Predict future pauses from those seen.

    ``between``: steps between two reports. ``density``: pauses per step so far. ``busy_us``: time spent on steps so
    far.
    """
    if not pauses:
        return FuturePauses(0.0, 0.0, 0.0, False)
    one_us, spread_us = _usual(pauses)
    rhythm = _rhythm(pauses, 2 * between)
    count = rhythm.count(min(pauses[-1].start, step), total)
    if len(pauses) == 1:
        # Seen once: it may recur after the same number of steps. A very long or very early pause was probably an
        # accident.
        part = pauses[0].end / max(total, pauses[0].end)
        count *= busy_us / (busy_us + one_us) * (part / (part + EARLY_RATIO)) ** 2
    count = min(count, DENSER * density * max(total - step, 0.0) + 1)
    is_due = rhythm.regular and count >= 1 and step >= rhythm.next(pauses[-1]) - 2 * between
    doubt = ONCE_DOUBT if len(pauses) == 1 else 0.0 if rhythm.regular else IRREGULAR_DOUBT
    return FuturePauses(one_us * count, hypot(spread_us * sqrt(count), doubt * one_us * count), one_us, is_due)


def _usual(pauses: list[Pause]) -> tuple[float, float]:
    """The mean and its spread, robust against accidents."""
    times_us = sorted(pause.us for pause in pauses)
    max_us = MAX_PAUSE_RATIO * times_us[(len(times_us) - 1) // 2]
    tamed = [min(us, max_us) for us in times_us]
    mean = sum(tamed) / len(tamed)
    if len(tamed) < 2:
        return mean, 0.3 * mean
    return mean, sqrt(sum((us - mean) ** 2 for us in tamed) / (len(tamed) - 1))


@dataclass(frozen=True, slots=True)
class _Rhythm:
    """The number of steps between two pauses."""

    gap: float
    regular: bool
    counted: bool
    """Pauses occur at step numbers that are multiples of the gap."""

    def next(self, last: Pause) -> float:
        if self.counted:
            return (int(last.end / self.gap + 0.02) + 1) * self.gap
        return (last.start + last.end) / 2 + self.gap

    def count(self, last: float, total: float) -> float:
        """Number of pauses after the last one."""
        if self.counted:
            return max(int(total / self.gap + 0.02) - int(last / self.gap + 0.999), 0)
        left = max(total - last, 0.0) / self.gap
        return float(int(left + 0.05)) if self.regular else left


def _rhythm(pauses: list[Pause], slack: float) -> _Rhythm:
    if len(pauses) == 1:
        return _Rhythm(max((pauses[0].start + pauses[0].end) / 2, 1.0), True, True)
    gaps = sorted(max(b.end - a.end, 1.0) for a, b in pairwise(pauses))
    mean, middle = max((pauses[-1].end - pauses[0].end) / (len(pauses) - 1), 1.0), gaps[len(gaps) // 2]
    counted = _multiples(pauses, middle) or _multiples(pauses, mean)
    if counted:
        return _Rhythm(counted, True, True)
    regular = sum(abs(gap - middle) <= slack + 0.1 * middle for gap in gaps) >= 0.75 * len(gaps)
    return _Rhythm(mean, regular, False)


def _multiples(pauses: list[Pause], guess: float) -> float | None:
    """The number that has a multiple in every pause, if there is one near the guess."""
    low, high = 0.0, inf
    turns = [max(round((pause.start + pause.end) / 2 / guess), 1) for pause in pauses]
    for pause, turn in zip(pauses, turns, strict=True):
        low, high = max(low, pause.start / turn), min(high, pause.end / turn)
    missed = turns[-1] - turns[0] + 1 - len(pauses)
    return (low + high) / 2 if 1 <= low <= high and abs(missed) <= MISSED_RATIO * len(pauses) else None
