"""Number of placed pods of each selection per node, updated from the log of the pod index."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.pod_index import PodIndex, PodKind
from gpusquad.engines.kubernetes.filters.pod_selections import PodSelection

MAX_COUNTS = 2048
"""Cached counts. Each takes four bytes per node."""


class PodCount:
    """Pods of one selection, by slot of the index."""

    def __init__(self, selection: PodSelection) -> None:
        self.counts = np.zeros(0, np.int32)
        self.version = 0
        """Incremented when a count changes."""
        self._sort = selection
        self._seen = -1
        self._namespaces_seen = -1

    def update(self, index: PodIndex) -> None:
        if self.counts.size < index.slots:
            self.counts = np.concatenate([self.counts, np.zeros(index.slots - self.counts.size, np.int32)])
        if not self._catch_up(index):
            self._recount(index)
        self._seen, self._namespaces_seen = index.counted(), index.namespaces_version

    def _catch_up(self, index: PodIndex) -> bool:
        """False: too much has changed."""
        if self._sort.uses_namespaces and self._namespaces_seen != index.namespaces_version:
            return False
        changes = index.since(self._seen) if self._seen >= 0 else None
        if changes is None:
            return False
        for change in changes:
            if self._sort.holds(change.kind, index.namespaces):
                self.counts[change.slot] += change.by
                self.version += 1
        return True

    def _recount(self, index: PodIndex) -> None:
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
        """Most pods differ only in labels that no selection uses. Pods that agree in the others share one answer."""
        similar = (kind.namespace, kind.leaving, *map(kind.labels.get, self._sort.labels))
        answer = answers.get(similar) if self._sort.labels else None
        if answer is None:
            answer = answers[similar] = self._sort.holds(kind, index.namespaces)
        return answer


class PodCounts:
    """Recently used counts."""

    def __init__(self, index: PodIndex) -> None:
        self._index = index
        self._kept: OrderedDict[PodSelection, PodCount] = OrderedDict()

    def counts(self, selection: PodSelection) -> NDArray[np.int32]:
        return self._updated(selection).counts

    def versions(self, selections: Iterable[PodSelection]) -> tuple[int, ...]:
        """Equal to an earlier result: none of these counts has changed."""
        return tuple(self._updated(selection).version for selection in selections)

    def _updated(self, selection: PodSelection) -> PodCount:
        count = self._kept.get(selection)
        if count is None:
            count = self._kept[selection] = PodCount(selection)
            if len(self._kept) > MAX_COUNTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(selection)
        count.update(self._index)
        return count
