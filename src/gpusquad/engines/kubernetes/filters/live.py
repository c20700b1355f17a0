"""Constraints that depend on other pods and on claims, as a sequence of checks with their reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumns
from gpusquad.engines.kubernetes.filters.placement_rule import PlacementRule
from gpusquad.engines.kubernetes.filters.pod_checks import (
    Counts,
    Domains,
    NoneAnywhere,
    NoneInDomain,
    NoneOnNode,
    PodCheck,
    SomeInDomains,
    WithinSkew,
)
from gpusquad.engines.kubernetes.filters.pod_counts import PodCounts
from gpusquad.engines.kubernetes.filters.pod_index import PodIndex
from gpusquad.engines.kubernetes.filters.pod_selections import ClaimPods, PodSelection, PodSelections
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
        yield from self.base_checks(rule)
        for check in self.pod_checks(rule, selections):
            yield FilterCheck(check.reason, check.ok(self.counts))

    def base_checks(self, rule: PlacementRule) -> Iterator[FilterCheck]:
        """Checks that starts of other pods do not change, except by the limits of attached volumes."""
        if rule.claims:
            yield from self._volumes(rule)
        if rule.spreads:
            yield FilterCheck("no label of the domains that the pod is spread over", self._has_labels(rule))

    def pod_checks(self, rule: PlacementRule, selections: PodSelections) -> Iterator[PodCheck]:
        """Checks that depend on where other pods are."""
        if selections.ports is not None:
            yield NoneOnNode("a host port of the pod is in use", selections.ports)
        for claim in self.storage.exclusive(rule.claims):
            yield NoneAnywhere(_is_used(claim.key), ClaimPods(claim.key))
        for spread, selection in zip(rule.spreads, selections.spread, strict=True):
            yield self._spread(spread, rule, selection)
        if selections.near is not None:
            keys = sorted({term.topology_key for term in rule.near})
            domains = tuple(map(self._domains, keys))
            reason = "no pod there that matches its pod affinity"
            yield SomeInDomains(reason, selections.near, domains, rule.is_near_itself)
        for apart in selections.apart:
            domain = self._domains(apart.topology_key)
            yield NoneInDomain("a pod there matches its pod anti-affinity", apart, domain)
        for repelling in selections.repelling:
            domain = self._domains(repelling.topology_key)
            yield NoneInDomain("the anti-affinity of a pod there matches it", repelling, domain)

    def counts(self, selection: PodSelection) -> Counts:
        return self.pod_counts.counts(selection)[self.slots]

    def _domains(self, key: str) -> Domains:
        return Domains.of(self.columns.label(key))

    # --- spread ---

    def _has_labels(self, rule: PlacementRule) -> Mask:
        return np.logical_and.reduce([self.columns.label(one.topology_key).codes > 0 for one in rule.spreads])

    def _spread(self, spread: TopologySpread, rule: PlacementRule, selection: PodSelection) -> WithinSkew:
        counted = self._has_labels(rule)
        if spread.by_choice:
            counted &= self.static.chosen(rule.choice)
        if spread.by_taints:
            counted &= self.static.tolerated(rule.tolerations)
        domains = self._domains(spread.topology_key)
        return WithinSkew(
            f"too many pods would be in one {spread.topology_key}", selection, domains, counted,
            np.unique(domains.codes[counted]), int(spread.counts_itself), spread.max_skew, spread.min_domains,
        )  # fmt: skip

    # --- volumes ---

    def _volumes(self, rule: PlacementRule) -> Iterator[FilterCheck]:
        mounts = self.storage.mounts(rule.claims)
        nowhere = np.zeros(len(self.columns), np.bool_)
        if mounts.waits_for:
            yield FilterCheck(mounts.waits_for, nowhere, nowhere=True)
            return
        for claim in self.storage.exclusive(rule.claims):
            if self.pod_counts.counts(ClaimPods(claim.key)).any():
                yield FilterCheck(_is_used(claim.key), nowhere, nowhere=True)
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


def _is_used(claim: str) -> str:
    return f"PersistentVolumeClaim {claim} is for one pod, and another pod uses it"
