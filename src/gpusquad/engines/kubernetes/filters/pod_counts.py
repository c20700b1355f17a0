"""How many placed pods of some sort each node has. Tallies count along with the pod index instead of counting anew."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.pod_index import PodIndex, PodKind
from gpusquad.engines.kubernetes.filters.pod_selections import Sort

KEPT = 2048
"""Tallies kept. Each takes four bytes a node."""


class PodCount:
    """Pods of one sort by slot of the index."""

    def __init__(self, sort: Sort) -> None:
        self.counts = np.zeros(0, np.int32)
        self.version = 0
        """Moves when a count does."""
        self._sort = sort
        self._seen = -1
        self._namespaces_seen = -1

    def update(self, index: PodIndex) -> None:
        if self.counts.size < index.slots:
            self.counts = np.concatenate([self.counts, np.zeros(index.slots - self.counts.size, np.int32)])
        if not self._catch_up(index):
            self._count_anew(index)
        self._seen, self._namespaces_seen = index.counted(), index.namespaces_version

    def _catch_up(self, index: PodIndex) -> bool:
        """False: too much has changed."""
        if self._sort.asks_namespaces and self._namespaces_seen != index.namespaces_version:
            return False
        changes = index.since(self._seen) if self._seen >= 0 else None
        if changes is None:
            return False
        for change in changes:
            if self._sort.holds(change.kind, index.namespaces):
                self.counts[change.slot] += change.by
                self.version += 1
        return True

    def _count_anew(self, index: PodIndex) -> None:
        slots: list[int] = []
        numbers: list[int] = []
        answers: dict[tuple, bool] = {}
        for kind, where in index.kinds(self._sort.tags()):
            if self._holds(kind, index, answers):
                slots.extend(where)
                numbers.extend(where.values())
        self.counts = np.bincount(slots, numbers, index.slots).astype(np.int32)
        self.version += 1

    def _holds(self, kind: PodKind, index: PodIndex, answers: dict[tuple, bool]) -> bool:
        """Most pods differ in labels that nobody asks for: one answer for all that agree in the others."""
        alike = (kind.namespace, kind.leaving, *map(kind.labels.get, self._sort.labels))
        answer = answers.get(alike) if self._sort.labels else None
        if answer is None:
            answer = answers[alike] = self._sort.holds(kind, index.namespaces)
        return answer


class PodCounts:
    """Those that were asked for lately."""

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._kept: OrderedDict[Sort, PodCount] = OrderedDict()

    def counts(self, sort: Sort) -> NDArray[np.int32]:
        return self._updated(sort).counts

    def versions(self, sorts: Iterable[Sort]) -> tuple[int, ...]:
        """The same as before: no count of these has changed since."""
        return tuple(self._updated(sort).version for sort in sorts)

    def _updated(self, sort: Sort) -> PodCount:
        tally = self._kept.get(sort)
        if tally is None:
            tally = self._kept[sort] = PodCount(sort)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(sort)
        tally.update(self._index)
        return tally
