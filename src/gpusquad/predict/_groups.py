"""The latest runs of every group, as bins: small, bounded, and quick to turn into hazards."""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from gpusquad.predict._bins import COUNT, Floats
from gpusquad.predict._similarity import Key, SimilarityKey, as_key

Bins = NDArray[np.int16]
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
        self._weights = np.power(kind.keeps, np.arange(2 * self._keep + 1.0))[::-1]

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

    def ended(self, key: Key | None) -> int:
        """The same without the runs that were cut short."""
        runs = None if key is None else self.runs.get(key)
        return min(self._keep, int(np.count_nonzero(np.frombuffer(runs, dtype=np.int16) >= 0))) if runs else 0

    def latest(self, key: Key | None) -> tuple[Bins, Floats] | None:
        """The runs of a group as bins, oldest first, and their weights. None: there are none."""
        runs = None if key is None else self.runs.get(key)
        if not runs:
            return None
        return np.frombuffer(runs, dtype=np.int16), self._weights[-len(runs) :]

    def dump(self) -> list:
        return [[key, list(runs)] for key, runs in self.runs.items()]

    def load(self, dumped: list) -> None:
        self.runs = OrderedDict((as_key(key), self._checked(runs)) for key, runs in dumped[-self.most :])

    def _checked(self, runs: list[int]) -> array:
        if len(runs) > 2 * self._keep or not all(-COUNT <= run < COUNT for run in runs):
            raise ValueError("invalid runs of a group")
        return array("h", runs)


def tally(groups: Sequence[tuple[RunGroups, Key | None]], ended: Floats, reached: Floats) -> None:
    """Add to rows of zeros, one per group, the weights of the runs that ended in each bin, and of those that reached
    it. All groups are counted at once, because each call of NumPy costs more than what it counts here."""
    rows = [(row, found) for row, (group, key) in enumerate(groups) if (found := group.latest(key)) is not None]
    if not rows:
        return
    bins = np.concatenate([found[0] for _, found in rows]).astype(np.int64)
    weights = np.concatenate([found[1] for _, found in rows])
    first = np.repeat([row * COUNT for row, _ in rows], [len(found[0]) for _, found in rows])
    cut = bins < 0
    if not cut.any():
        ended += _sums(first + bins, weights, ended)
        reached += ended[:, ::-1].cumsum(axis=1)[:, ::-1]
        return
    ended += _sums((first + bins)[~cut], weights[~cut], ended)
    last = ended + _sums((first - 1 - bins)[cut], weights[cut], ended)
    reached += last[:, ::-1].cumsum(axis=1)[:, ::-1]
    reached -= last - ended  # a run that was cut short is no evidence about the bin it was cut in


def _sums(places: NDArray[np.int64], weights: Floats, like: Floats) -> Floats:
    return np.asarray(np.bincount(places, weights, like.size), dtype=np.float64).reshape(*like.shape)
