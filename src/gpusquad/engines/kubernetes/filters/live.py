"""Constraints that depend on other pods and on claims, as a sequence of checks with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumns
from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_counts import PodCounts
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.pod_selections import (
    AffinityPods,
    AntiAffinityPods,
    ClaimPods,
    PodSelection,
    PodSelections,
    RepellingPods,
)
from gpusquad.engines.kubernetes.filters.spread import TopologySpread
from gpusquad.engines.kubernetes.filters.static import StaticFilter
from gpusquad.engines.kubernetes.filters.storage import Mounts, Storage
from gpusquad.engines.kubernetes.filters.volume_attach import drivers_missing, too_many_attached


class FilterCheck(NamedTuple):
    """Nodes that pass, and the reason for those that do not. ``nowhere``: the reason concerns the pod, not nodes."""

    reason: str
    ok: Mask
    nowhere: bool = False


@dataclass
class LiveFilter:
    """Inputs of the checks."""

    columns: NodeColumns
    static: StaticFilter
    pod_counts: PodCounts
    index: PodIndex
    storage: Storage
    slots: NDArray[np.intp]
    """Slot of each node in the index."""

    def checks(self, rule: PlacementRule, selections: PodSelections) -> Iterator[FilterCheck]:
        if selections.ports is not None:
            yield FilterCheck("a host port of the pod is in use", self._counts(selections.ports) == 0)
        if rule.claims:
            yield from self._volumes(rule)
        yield from self._spreads(rule, selections)
        if selections.near is not None:
            yield FilterCheck("no pod there that matches its pod affinity", self._near(rule, selections.near))
        for apart in selections.apart:
            yield FilterCheck("a pod there matches its pod anti-affinity", self._without(apart))
        for repelling in selections.repelling:
            yield FilterCheck("the anti-affinity of a pod there matches it", self._without(repelling))

    def _counts(self, selection: PodSelection) -> NDArray[np.int32]:
        return self.pod_counts.counts(selection)[self.slots]

    def _in_domains(self, key: str, counts: NDArray[np.int32]) -> NDArray[np.int64]:
        """Sum over each domain, by the code of its label. Nodes without the label belong to none."""
        column = self.columns.label(key)
        sums = np.bincount(column.codes, counts, len(column.values)).astype(np.int64)
        sums[0] = 0
        return sums

    # --- affinity ---

    def _near(self, rule: PlacementRule, selection: AffinityPods) -> Mask:
        counts = self._counts(selection)
        has_labels = np.ones(len(self.columns), np.bool_)
        has_pods = np.ones(len(self.columns), np.bool_)
        none_found = True
        for key in {term.topology_key for term in rule.near}:
            codes, sums = self.columns.label(key).codes, self._in_domains(key, counts)
            has_labels &= codes > 0
            has_pods &= sums[codes] > 0
            none_found &= not sums.any()
        if none_found and rule.is_near_itself:  # the first pod that matches its own affinity may go anywhere
            return has_labels
        return has_labels & has_pods

    def _without(self, selection: AntiAffinityPods | RepellingPods) -> Mask:
        sums = self._in_domains(selection.topology_key, self._counts(selection))
        return sums[self.columns.label(selection.topology_key).codes] == 0

    # --- spread ---

    def _spreads(self, rule: PlacementRule, selections: PodSelections) -> Iterator[FilterCheck]:
        if not rule.spreads:
            return
        has_labels = np.logical_and.reduce([self.columns.label(one.topology_key).codes > 0 for one in rule.spreads])
        yield FilterCheck("no label of the domains that the pod is spread over", has_labels)
        for spread, selection in zip(rule.spreads, selections.spread, strict=True):
            ok = self._spread(spread, rule, has_labels, self._counts(selection))
            yield FilterCheck(f"too many pods would be in one {spread.topology_key}", ok)

    def _spread(self, spread: TopologySpread, rule: PlacementRule, has_labels: Mask, counts: NDArray[np.int32]) -> Mask:
        counted = has_labels.copy()
        if spread.by_choice:
            counted &= self.static.chosen(rule.choice)
        if spread.by_taints:
            counted &= self.static.tolerated(rule.tolerations)
        codes = self.columns.label(spread.topology_key).codes
        sums = self._in_domains(spread.topology_key, counts * counted)
        domains = np.unique(codes[counted])
        fewest = 0 if domains.size < spread.min_domains else int(sums[domains].min())
        return sums[codes] + int(spread.counts_itself) - fewest <= spread.max_skew

    # --- volumes ---

    def _volumes(self, rule: PlacementRule) -> Iterator[FilterCheck]:
        mounts = self.storage.mounts(rule.claims)
        nowhere = np.zeros(len(self.columns), np.bool_)
        if mounts.waits_for:
            yield FilterCheck(mounts.waits_for, nowhere, nowhere=True)
            return
        for claim in self.storage.exclusive(rule.claims):
            if self.pod_counts.counts(ClaimPods(claim.key)).any():
                yield FilterCheck(
                    f"PersistentVolumeClaim {claim.key} is for one pod, and another pod uses it", nowhere, nowhere=True
                )
        yield from self._places(mounts)

    def _places(self, mounts: Mounts) -> Iterator[FilterCheck]:
        for choice in mounts.choices:
            yield FilterCheck("a volume of the pod is not accessible from there", self.static.chosen(choice))
        for zone in mounts.zones:
            yield FilterCheck("a volume of the pod is in another zone", self.static.in_zone(zone))
        if mounts.handles:
            missing = drivers_missing(self.columns, self.storage, mounts.handles)
            yield FilterCheck("the driver of a volume is not installed", ~missing)
            full = too_many_attached(self.columns, self.storage, self.index, mounts.handles)
            yield FilterCheck("the driver's limit of attached volumes is reached", ~full)
