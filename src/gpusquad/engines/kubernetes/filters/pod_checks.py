"""Checks of a rule that depend on where other pods are, as functions of the number of pods on each node.

A check captures everything else when it is made, so it gives the same answer for hypothetical numbers at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumn
from gpusquad.engines.kubernetes.filters.pod_selections import PodSelection

Counts = NDArray[np.int32]
"""Pods of a selection on each node."""
CountsOf = Callable[[PodSelection], Counts]


class PodCheck(Protocol):
    """Nodes that pass, and the reason for those that do not."""

    @property
    def reason(self) -> str: ...
    @property
    def selection(self) -> PodSelection: ...
    def ok(self, counts_of: CountsOf) -> Mask: ...


@dataclass(frozen=True, eq=False, slots=True)
class Domains:
    """Nodes by the value of a label. Code 0: without the label, and so in no domain."""

    codes: NDArray[np.int32]
    size: int

    @classmethod
    def of(cls, column: NodeColumn[Any]) -> Domains:
        return cls(column.codes, len(column.values))

    def sums(self, counts: NDArray[np.integer]) -> NDArray[np.int64]:
        """Sum over each domain, by its code."""
        sums = np.bincount(self.codes, counts, self.size).astype(np.int64)
        sums[0] = 0
        return sums


@dataclass(frozen=True, eq=False, slots=True)
class NoneOnNode:
    reason: str
    selection: PodSelection

    def ok(self, counts_of: CountsOf) -> Mask:
        return counts_of(self.selection) == 0


@dataclass(frozen=True, eq=False, slots=True)
class NoneAnywhere:
    reason: str
    selection: PodSelection

    def ok(self, counts_of: CountsOf) -> Mask:
        counts = counts_of(self.selection)
        return np.full(len(counts), not counts.any())


@dataclass(frozen=True, eq=False, slots=True)
class NoneInDomain:
    reason: str
    selection: PodSelection
    domains: Domains

    def ok(self, counts_of: CountsOf) -> Mask:
        return self.domains.sums(counts_of(self.selection))[self.domains.codes] == 0


@dataclass(frozen=True, eq=False, slots=True)
class SomeInDomains:
    """At least one pod in the domain of each label."""

    reason: str
    selection: PodSelection
    domains: tuple[Domains, ...]
    is_met_by_itself: bool

    def ok(self, counts_of: CountsOf) -> Mask:
        counts = counts_of(self.selection)
        has_labels: Mask = np.ones(len(counts), np.bool_)
        has_pods: Mask = np.ones(len(counts), np.bool_)
        none_found = True
        for each in self.domains:
            sums = each.sums(counts)
            has_labels &= each.codes > 0
            has_pods &= sums[each.codes] > 0
            none_found &= not sums.any()
        if none_found and self.is_met_by_itself:  # the first pod that matches its own affinity may go anywhere
            return has_labels
        return has_labels & has_pods


@dataclass(frozen=True, eq=False, slots=True)
class WithinSkew:
    """No domain may have more than ``max_skew`` pods above the one with the fewest."""

    reason: str
    selection: PodSelection
    domains: Domains
    counted: Mask
    """Nodes whose pods count."""
    there: NDArray[np.int32]
    """Codes of the domains of these nodes."""
    own: int
    """The pod itself, if it counts."""
    max_skew: int
    min_domains: int

    def ok(self, counts_of: CountsOf) -> Mask:
        codes = self.domains.codes
        sums = self.domains.sums(counts_of(self.selection) * self.counted)
        fewest = 0 if self.there.size < self.min_domains else int(sums[self.there].min())
        return sums[codes] + self.own - fewest <= self.max_skew
