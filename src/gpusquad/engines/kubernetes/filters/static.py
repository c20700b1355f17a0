"""Masks that depend on nodes alone. They are cached and recomputed only for changed nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from gpusquad.engines.kubernetes.filters.columns import Mask, NodeColumns, Nodes
from gpusquad.engines.kubernetes.filters.node_affinity import NodeChoice, NodeTerm
from gpusquad.engines.kubernetes.filters.storage import Zone
from gpusquad.engines.kubernetes.filters.taints import UNSCHEDULABLE, Toleration, first_untolerated, tolerates

MAX_MASKS = 4096
"""Cached masks. Each takes a byte per node."""

ALL = slice(None)


@dataclass
class _CachedNodeMask:
    mask: Mask
    seen: int
    """Number of node changes that are included."""


class StaticFilter:
    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._kept: OrderedDict[Hashable, _CachedNodeMask] = OrderedDict()

    def chosen(self, choice: NodeChoice) -> Mask:
        """By node selector and node affinity."""
        return self._answer(choice, lambda at: _chosen(self._columns, choice, at))

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """By taints."""
        return self._answer(
            (Toleration, tolerations),
            lambda at: self._columns.taints.look_up(lambda taints: first_untolerated(tolerations, taints) is None, at),
        )

    def not_cordoned(self, tolerations: tuple[Toleration, ...]) -> Mask:
        """By ``spec.unschedulable``."""
        if tolerates(tolerations, UNSCHEDULABLE):
            return np.ones(len(self._columns), np.bool_)
        return ~self._columns.cordoned

    def in_zone(self, zone: Zone) -> Mask:
        return self._answer(zone, lambda at: _in_zone(self._columns, zone, at))

    def _answer(self, key: Hashable, compute: Callable[[Nodes | slice], Mask]) -> Mask:
        changes, kept = self._columns.changes, self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _CachedNodeMask(compute(ALL), len(changes))
            if len(self._kept) > MAX_MASKS:
                self._kept.popitem(last=False)
            return kept.mask
        self._kept.move_to_end(key)
        if kept.seen < len(changes):
            at = np.unique(np.array(changes[kept.seen :], np.intp))
            kept.mask = kept.mask.copy()  # earlier results must not change
            kept.mask[at] = compute(at)
            kept.seen = len(changes)
        return kept.mask


def _chosen(columns: NodeColumns, choice: NodeChoice, at: Nodes | slice) -> Mask:
    mask = _term(columns, NodeTerm(choice.selector), at)
    if choice.terms is not None:
        any_term = np.zeros_like(mask)
        for term in choice.terms:
            any_term |= _term(columns, term, at)
        mask &= any_term
    return mask


def _term(columns: NodeColumns, term: NodeTerm, at: Nodes | slice) -> Mask:
    mask = np.ones(columns.cordoned[at].size, np.bool_)
    for wanted in term.labels:
        mask &= columns.holds(wanted, at)
    for wanted in term.names:
        mask &= columns.is_named(wanted, at)
    return mask


def _in_zone(columns: NodeColumns, zone: Zone, at: Nodes | slice) -> Mask:
    positions = np.arange(len(columns))[at]
    return np.fromiter((zone.allows(columns.labels_at(int(one))) for one in positions), np.bool_, len(positions))
