"""Named sets of allowed nodes, and what starts change about them."""

from __future__ import annotations

from collections.abc import Mapping, Set

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.placement import Placement


class NodeSets(dict[str, NDArray[np.bool_]]):
    """``Request.where`` -> allowed nodes: one flag per node, in cluster order. Not changed once made.

    Sets that depend on where other jobs run are a subclass of the engine, so that jobs started in one cycle respect
    each other before the engine reports again.
    """

    @classmethod
    def of(cls, allowed: Mapping[str, NDArray[np.bool_]]) -> NodeSets:
        return allowed if isinstance(allowed, NodeSets) else NodeSets(allowed)

    @property
    def given(self) -> NodeSets:
        """These sets as reported, without the starts added since."""
        return self

    @property
    def awaited(self) -> Set[str]:
        """Jobs that were not placed when this was reported and whose start changes a set."""
        return frozenset()

    def why_none(self, name: str) -> str:
        """Why a set is empty, as the engine sees it. Empty: not known."""
        return ""

    def with_start(self, job_id: str, placement: Placement) -> NodeSets:
        """The sets after the start of a job; the same object if it changes none."""
        return self

    def equals(self, other: NodeSets) -> bool:
        """Whether the same nodes are allowed."""
        return self.keys() == other.keys() and all(_is_same(self[name], other[name]) for name in self)


def changed_nodes(before: NodeSets, after: NodeSets) -> NDArray[np.bool_] | None:
    """Nodes that differ in a set. None: other names, or another number of nodes."""
    if before.keys() != after.keys():
        return None
    found: NDArray[np.bool_] = np.zeros(1, np.bool_)
    for name, mask in after.items():
        if before[name] is not mask:
            if before[name].shape != mask.shape:
                return None
            found = found | (before[name] != mask)
    return found


def _is_same(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    return one is other or np.array_equal(one, other)
