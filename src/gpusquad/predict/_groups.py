"""The latest runs of every group, as bins: small, bounded, and quick to turn into hazards."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from math import ceil, log

import numpy as np

from gpusquad.predict._bins import COUNT, Floats
from gpusquad.predict._similarity import Key, SimilarityKey, as_key

_FORGOTTEN = 0.02
"""A run with a lower weight is dropped."""


class RunGroups:
    """All groups of one similarity key. The group that was seen least recently is evicted first."""

    def __init__(self, kind: SimilarityKey, most: int) -> None:
        self.kind = kind
        self.most = most
        self.runs: OrderedDict[Key, array] = OrderedDict()
        """Oldest first. A run that was cut in bin b is stored as -1 - b."""
        self._keep = ceil(log(_FORGOTTEN) / log(kind.keeps))
        self._weights = kind.keeps ** np.arange(2 * self._keep + 1)[::-1]

    def learn(self, key: Key, bin_: int, was_cut: bool) -> None:
        runs = self.runs.get(key)
        if runs is None:
            runs = self.runs[key] = array("h")
            if len(self.runs) > self.most:
                self.runs.popitem(last=False)
        else:
            self.runs.move_to_end(key)
        runs.append(-1 - bin_ if was_cut else bin_)
        if len(runs) > 2 * self._keep:
            del runs[: self._keep]

    def count(self, key: Key | None) -> int:
        return 0 if key is None else min(self._keep, len(self.runs.get(key, ())))

    def tally(self, key: Key | None, ended: Floats, reached: Floats) -> None:
        """Add to rows of zeros the weights of the runs that ended in each bin, and of those that reached it."""
        runs = None if key is None else self.runs.get(key)
        if not runs:
            return
        bins = np.frombuffer(runs, dtype=np.int16).astype(np.int64)
        weights = self._weights[-len(bins) :]
        whole = bins >= 0
        ended += np.bincount(bins[whole], weights[whole], COUNT)
        last = ended
        if not whole.all():
            last = ended + np.bincount(-1 - bins[~whole], weights[~whole], COUNT)
        reached += last[::-1].cumsum()[::-1]
        if last is not ended:  # a run that was cut short is no evidence about the bin it was cut in
            reached -= last - ended

    def dump(self) -> list:
        return [[key, list(runs)] for key, runs in self.runs.items()]

    def load(self, dumped: list) -> None:
        self.runs = OrderedDict((as_key(key), self._checked(runs)) for key, runs in dumped[-self.most :])

    def _checked(self, runs: list[int]) -> array:
        if len(runs) > 2 * self._keep or not all(-COUNT <= run < COUNT for run in runs):
            raise ValueError("invalid runs of a group")
        return array("h", runs)


def reaches(bin_: int, amount: float, row: Floats) -> None:
    """Count a run that has reached a bin and may continue."""
    row[:bin_] += amount
