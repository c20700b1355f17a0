"""Allowed nodes of a pod, one bit per node: what kube-scheduler's filters would pass, resources aside."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumns
from gpusquad.engines.kubernetes.filters.live import FilterCheck, LiveFilter
from gpusquad.engines.kubernetes.filters.node_sets import FrozenRule
from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_checks import Counts
from gpusquad.engines.kubernetes.filters.pod_counts import PodCounts
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.pod_selections import PodSelection, PodSelections, selections_of
from gpusquad.engines.kubernetes.filters.static import StaticFilter
from gpusquad.engines.kubernetes.filters.storage import Storage
from gpusquad.engines.kubernetes.filters.taints import first_untolerated
from gpusquad.kube.objects import Object
from gpusquad.model.units import show_count

MAX_MASKS = 4096
"""Cached masks. Each takes a byte per node."""

MAX_REASONS = 3
"""Reasons in one text."""

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _CachedMask:
    selections: PodSelections
    version: Version
    """Version of everything that the mask was computed from."""
    mask: Mask


@dataclass(frozen=True, slots=True)
class _CachedFrozen:
    rule: FrozenRule
    version: Version


@dataclass(frozen=True, slots=True)
class _CachedCounts:
    counts: Counts
    version: int
    seen: int
    """Version of the index."""


class NodeMasks:
    """Covers all nodes of the cluster, also those without cards, because their pods count in zones and spreads. If
    nodes are added or removed, use the object that ``with_nodes`` returns."""

    def __init__(
        self,
        nodes: Sequence[Object],
        index: PodIndex | None = None,
        storage: Storage | None = None,
        pod_counts: PodCounts | None = None,
    ) -> None:
        columns = NodeColumns(nodes)
        self._columns = columns
        self._static = StaticFilter(columns)
        self._index = index or PodIndex()
        self._storage = storage or Storage()
        slots: NDArray[np.intp] = np.fromiter(map(self._index.slot, columns.names), np.intp, len(columns))
        self._pod_counts = pod_counts or PodCounts(self._index)
        self._live = LiveFilter(columns, self._static, self._pod_counts, self._index, self._storage, slots)
        self._kept: OrderedDict[PlacementRule, _CachedMask] = OrderedDict()
        self._why_none: OrderedDict[PlacementRule, tuple[Version, str]] = OrderedDict()
        self._frozen: dict[PlacementRule, _CachedFrozen] = {}
        self._counts: dict[PodSelection, _CachedCounts] = {}

    def with_nodes(self, nodes: Sequence[Object]) -> NodeMasks:
        """For other nodes, or another order. Pod counts are kept."""
        return NodeMasks(nodes, self._index, self._storage, self._pod_counts)

    def node_changed(self, position: int, node: Object) -> bool:
        """False: nothing that a rule could depend on has changed."""
        return self._columns.change(position, node)

    def mask(self, rule: PlacementRule) -> Mask:
        """In the order of the nodes, read-only. Returns the same array object while nothing has changed."""
        kept = self._kept.get(rule)
        selections = kept.selections if kept is not None else selections_of(rule)
        version = self._version(rule, selections)
        if kept is not None and kept.version == version:
            return kept.mask
        mask = self._compute(rule, selections)
        if kept is not None and np.array_equal(kept.mask, mask):
            mask = kept.mask
        self._keep(rule, _CachedMask(selections, version, mask))
        return mask

    def frozen(self, rules: Mapping[str, PlacementRule]) -> dict[str, FrozenRule]:
        """These rules as functions of the number of pods, without those that do not depend on it."""
        kept, self._frozen = self._frozen, {}
        for rule in rules.values():
            version = self._base_version(rule)
            found = kept.get(rule)
            if found is None or found.version != version:
                found = _CachedFrozen(self._freeze(rule), version)
            self._frozen[rule] = found
        return {name: self._frozen[rule].rule for name, rule in rules.items() if self._frozen[rule].rule.checks}

    def counts(self, selections: Iterable[PodSelection]) -> dict[PodSelection, Counts]:
        """Pods on each node. The arrays are not changed later."""
        kept, self._counts = self._counts, {}
        seen = self._index.version
        for selection in selections:
            found = kept.get(selection)
            if found is None or found.seen != seen:
                [version] = self._pod_counts.versions([selection])
                is_same = found is not None and found.version == version
                counts = found.counts if found is not None and is_same else self._live.counts(selection)
                found = _CachedCounts(counts, version, seen)
            self._counts[selection] = found
        return {selection: each.counts for selection, each in self._counts.items()}

    def why_not(self, rule: PlacementRule, position: int) -> str:
        """The first reason why the node is not allowed; empty: it is."""
        checks = self._checks(rule, selections_of(rule))
        return next((check.reason for check in checks if not check.ok[position]), "")

    def waits_for(self, rule: PlacementRule) -> str:
        """Why no node is allowed yet, as text: its claims. Empty: it depends on the nodes."""
        if not rule.claims:
            return ""
        return next((check.reason for check in self._live.checks(rule, selections_of(rule)) if check.nowhere), "")

    def why_none(self, rule: PlacementRule) -> str:
        """Why no node is allowed, as text: its claims, or the most frequent reasons."""
        version = self._version(rule, selections_of(rule))
        kept = self._why_none.get(rule)
        if kept is None or kept[0] != version:
            why = self.waits_for(rule)
            if not why:
                most = self.explain(rule)[:MAX_REASONS]
                why = "; ".join(f"{show_count(number, 'node')}: {reason}" for reason, number in most)
            kept = self._why_none[rule] = version, why
            if len(self._why_none) > MAX_MASKS:
                self._why_none.popitem(last=False)
        return kept[1]

    def explain(self, rule: PlacementRule) -> list[tuple[str, int]]:
        """Reasons why nodes are excluded, with their number: the first reason of each node, the most frequent first."""
        counts: dict[str, int] = {}
        left = np.ones(len(self._columns), np.bool_)
        for check in self._checks(rule, selections_of(rule)):
            out = left & ~check.ok
            for reason, number in self._reasons(check, rule, out):
                counts[reason] = counts.get(reason, 0) + number
            left &= check.ok
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    def _keep(self, rule: PlacementRule, kept: _CachedMask) -> None:
        self._kept[rule] = kept
        self._kept.move_to_end(rule)
        if len(self._kept) > MAX_MASKS:
            self._kept.popitem(last=False)

    def _compute(self, rule: PlacementRule, selections: PodSelections) -> Mask:
        mask = np.ones(len(self._columns), np.bool_)
        for check in self._checks(rule, selections):
            mask &= check.ok
        mask.flags.writeable = False
        return mask

    def _checks(self, rule: PlacementRule, selections: PodSelections) -> Iterator[FilterCheck]:
        yield from self._node_checks(rule)
        yield from self._live.checks(rule, selections)

    def _node_checks(self, rule: PlacementRule) -> Iterator[FilterCheck]:
        yield FilterCheck("cordoned (unschedulable)", self._static.not_cordoned(rule.tolerations))
        yield FilterCheck(_TAINT, self._static.tolerated(rule.tolerations))
        yield FilterCheck("excluded by its node selector or node affinity", self._static.chosen(rule.choice))

    def _freeze(self, rule: PlacementRule) -> FrozenRule:
        base: Mask = np.ones(len(self._columns), np.bool_)
        for check in (*self._node_checks(rule), *self._live.base_checks(rule)):
            base &= check.ok
        return FrozenRule(base, tuple(self._live.pod_checks(rule, selections_of(rule))))

    def _reasons(self, check: FilterCheck, rule: PlacementRule, out: Mask) -> Iterator[tuple[str, int]]:
        if check.reason != _TAINT:
            yield from [(check.reason, int(out.sum()))] if out.any() else []
            return
        taints = self._columns.taints
        for code, number in enumerate(np.bincount(taints.codes[out], minlength=len(taints.values))):
            if number:
                yield f"taint {first_untolerated(rule.tolerations, taints.values[code])} not tolerated", int(number)

    def _version(self, rule: PlacementRule, selections: PodSelections) -> Version:
        return (*self._base_version(rule), *self._pod_counts.versions(selections))

    def _base_version(self, rule: PlacementRule) -> Version:
        nodes = len(self._columns.changes)
        return (nodes, self._index.version, self._storage.version) if rule.claims else (nodes,)


_TAINT = "taint not tolerated"


def explain(rule: PlacementRule, nodes: Sequence[Object], index: PodIndex | None = None,
            storage: Storage | None = None) -> list[tuple[str, int]]:  # fmt: skip
    """For a single query."""
    return NodeMasks(nodes, index, storage).explain(rule)
