"""On which nodes a pod may go, as one bit a node: what kube-scheduler's filters would let through, room aside."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumns
from gpusquad.engines.kubernetes.filters.live import FilterCheck, LiveFilter
from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_counts import PodCounts
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.pod_selections import PodSelections, sorts_of
from gpusquad.engines.kubernetes.filters.static import StaticFilter
from gpusquad.engines.kubernetes.filters.storage import Storage
from gpusquad.engines.kubernetes.filters.taints import first_untolerated
from gpusquad.kube.objects import Object

KEPT = 4096
"""Masks kept. Each takes a byte a node."""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Kept:
    sorts: PodSelections
    version: Version
    """Of everything that the mask was worked out from."""
    mask: Mask


class NodeMasks:
    """Made for all nodes of the cluster, also those without cards: their pods count in zones and spreads. When a node
    comes or goes, go on with those of ``with_nodes``."""

    def __init__(
        self,
        nodes: Sequence[Object],
        index: PodIndex | None = None,
        storage: Storage | None = None,
        tallies: PodCounts | None = None,
    ) -> None:
        columns = NodeColumns(nodes)
        self._columns = columns
        self._static = StaticFilter(columns)
        self._index = index or PodIndex()
        self._storage = storage or Storage()
        slots: NDArray[np.intp] = np.fromiter(map(self._index.slot, columns.names), np.intp, len(columns))
        self._tallies = tallies or PodCounts(self._index)
        self._live = LiveFilter(columns, self._static, self._tallies, self._index, self._storage, slots)
        self._kept: OrderedDict[PlacementRule, _Kept] = OrderedDict()

    def with_nodes(self, nodes: Sequence[Object]) -> NodeMasks:
        """For other nodes, or in another order. What was counted of pods is kept."""
        return NodeMasks(nodes, self._index, self._storage, self._tallies)

    def node_changed(self, position: int, node: Object) -> bool:
        """False: nothing that a rule could look at has changed."""
        return self._columns.change(position, node)

    def mask(self, rule: PlacementRule) -> Mask:
        """In the order of the nodes, not to be written to. The very same array as before while nothing has changed."""
        kept = self._kept.get(rule)
        sorts = kept.sorts if kept is not None else sorts_of(rule)
        version = self._version(rule, sorts)
        if kept is not None and kept.version == version:
            return kept.mask
        mask = self._work_out(rule, sorts)
        if kept is not None and np.array_equal(kept.mask, mask):
            mask = kept.mask
        self._keep(rule, _Kept(sorts, version, mask))
        return mask

    def waits_for(self, rule: PlacementRule) -> str:
        """Why the pod can go nowhere at all yet, in words: its claims. Empty: it is up to the nodes."""
        if not rule.claims:
            return ""
        return next((check.reason for check in self._live.checks(rule, sorts_of(rule)) if check.nowhere), "")

    def explain(self, rule: PlacementRule) -> list[tuple[str, int]]:
        """Why nodes are out of the question, with how many: the first reason of each node, the most frequent first."""
        counts: dict[str, int] = {}
        left = np.ones(len(self._columns), np.bool_)
        for check in self._checks(rule, sorts_of(rule)):
            out = left & ~check.ok
            for reason, number in self._reasons(check, rule, out):
                counts[reason] = counts.get(reason, 0) + number
            left &= check.ok
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def _keep(self, rule: PlacementRule, kept: _Kept) -> None:
        self._kept[rule] = kept
        self._kept.move_to_end(rule)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _work_out(self, rule: PlacementRule, sorts: PodSelections) -> Mask:
        mask = np.ones(len(self._columns), np.bool_)
        for check in self._checks(rule, sorts):
            mask &= check.ok
        mask.flags.writeable = False
        return mask

    def _checks(self, rule: PlacementRule, sorts: PodSelections) -> Iterator[FilterCheck]:
        yield FilterCheck("cordoned (unschedulable)", self._static.not_cordoned(rule.tolerations))
        yield FilterCheck(_TAINT, self._static.tolerated(rule.tolerations))
        yield FilterCheck(
            "not among the nodes that its node selector or node affinity names", self._static.chosen(rule.choice)
        )
        yield from self._live.checks(rule, sorts)

    def _reasons(self, check: FilterCheck, rule: PlacementRule, out: Mask) -> Iterator[tuple[str, int]]:
        if check.reason != _TAINT:
            yield from [(check.reason, int(out.sum()))] if out.any() else []
            return
        taints = self._columns.taints
        for code, number in enumerate(np.bincount(taints.codes[out], minlength=len(taints.values))):
            if number:
                yield f"taint {first_untolerated(rule.tolerations, taints.values[code])} not tolerated", int(number)

    def _version(self, rule: PlacementRule, sorts: PodSelections) -> Version:
        nodes = len(self._columns.changes)
        claims = (self._index.version, self._storage.version) if rule.claims else ()
        return (nodes, *claims, *self._tallies.versions(sorts))


_TAINT = "taint not tolerated"


def explain(rule: PlacementRule, nodes: Sequence[Object], index: PodIndex | None = None,
            storage: Storage | None = None) -> list[tuple[str, int]]:  # fmt: skip
    """For who asks once."""
    return NodeMasks(nodes, index, storage).explain(rule)
