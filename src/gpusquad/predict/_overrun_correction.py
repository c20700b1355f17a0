"""Prevents short runs from making an owner's long runs look short.

Predictions count runs, and runs are cheap. An owner with ten very short jobs for each one-day job is correctly
predicted to be quick ten times out of eleven. This module therefore tracks how much of an owner's card time lies within
the predicted median. If almost none does, the owner's distributions are weighted by the square of the run time, up to
the run time where most of the card time is spent. A long job then counts what it would count alone, however many short
ones there are (the merit is one over the square of the run time). Ordinary owners are far from this; see the bounds.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from math import isfinite

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun
from gpusquad.model.units import US_PER_S
from gpusquad.predict._bins import MIDDLES_US, Floats
from gpusquad.predict._similarity import Key, as_key

_HALF_LIFE_US = 14 * 86400 * US_PER_S
_IGNORED_OVERRUNS = 2
"""Number of overruns that are ignored, the largest first: a few are not a pattern."""
_SUSPICIOUS = 8.0
"""Ratio of card time to the predicted part of it. In the log KTH-SP2 one prediction in 900 is for an owner above this,
in SDSC-SP2 one in 2,200, in CTC-SP2 one in 100.
"""
_CERTAIN = 20.0
_MAX_POWER = 2.0


@dataclass(slots=True)
class _Sums:
    """Sums of one owner, decaying over time."""

    used: float = 0.0
    """Card seconds used."""
    within: float = 0.0
    """Card seconds within the predicted median."""
    squared: float = 0.0
    """Card seconds times run seconds."""
    at_us: int = 0
    overruns: tuple[float, ...] = ()
    """Card seconds beyond the median, of the runs that exceeded it most. Largest first."""

    def add(self, run_s: float, middle_s: float, cards: int, at_us: int) -> None:
        keeps = 0.5 ** (max(0, at_us - self.at_us) / _HALF_LIFE_US)
        self.used = self.used * keeps + run_s * cards
        self.within = self.within * keeps + min(run_s, middle_s) * cards
        self.squared = self.squared * keeps + run_s * run_s * cards
        overruns = [past * keeps for past in self.overruns]
        overruns.append(max(0.0, run_s - middle_s) * cards)
        self.overruns = tuple(sorted(overruns, reverse=True)[:_IGNORED_OVERRUNS])
        self.at_us = max(self.at_us, at_us)

    def weight(self) -> tuple[float, float]:
        """The power of the run time to weight by, and the run time up to which it applies."""
        counted = self.used - sum(self.overruns)
        if counted <= _SUSPICIOUS * self.within:
            return 0.0, 0.0
        sure = 1.0 if self.within <= 0 else (counted / self.within - _SUSPICIOUS) / (_CERTAIN - _SUSPICIOUS)
        return _MAX_POWER * min(1.0, sure), max(1.0, self.squared / self.used * US_PER_S)


class OverrunCorrection:
    """How far the card time of owners, and of whole tenants, exceeded their predictions."""

    def __init__(self, most: int = 100_000) -> None:
        self.most = most
        self._sums: OrderedDict[Key, _Sums] = OrderedDict()

    def learn(self, run: PastRun, middle_us: int) -> None:
        """Learn from a finished run and its predicted median. A run that was cut short lasted at least this long."""
        for key in _owner_keys(run.job):
            sums = self._sums.pop(key, None) or _Sums(at_us=run.ended_us)
            sums.add(max(0, run.run_us) / US_PER_S, middle_us / US_PER_S, max(1, run.job.gpus), run.ended_us)
            self._sums[key] = sums
            if len(self._sums) > self.most:
                self._sums.popitem(last=False)

    def corrected(self, job: Job, part: Floats) -> Floats | None:
        """The distribution to use instead for this owner. None: no correction."""
        power, reach_us = max(
            sums.weight() if (sums := self._sums.get(key)) else (0.0, 0.0) for key in _owner_keys(job)
        )
        return part * np.minimum(1.0, MIDDLES_US / reach_us) ** power if power else None

    def dump(self) -> list:
        return [[key, s.used, s.within, s.squared, s.at_us, list(s.overruns)] for key, s in self._sums.items()]

    def load(self, dumped: list) -> None:
        self._sums = OrderedDict((as_key(key), _checked(*rest)) for key, *rest in dumped[-self.most :])


def _owner_keys(job: Job) -> tuple[Key, Key]:
    """The owner and the tenant. The tenant is included because one user could run short jobs to help another user of
    it.
    """
    return (job.tenant, job.user), (job.tenant,)


def _checked(used: float, within: float, squared: float, at_us: int, overruns: list[float]) -> _Sums:
    if not all(isfinite(value) and value >= 0 for value in (used, within, squared, *overruns)):
        raise ValueError("invalid sums of card time")
    return _Sums(used, within, squared, int(at_us), tuple(overruns))
