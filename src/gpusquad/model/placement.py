"""Where a gang runs: one entry a task, by index into the cluster's nodes and cards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ShapePlacement:
    """The tasks of one shape. ``cards`` has one row a task (no column for CPU-only tasks)."""

    request_index: int
    nodes: Ints
    cards: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """A whole gang placed. Parts follow ``Job.groups``."""

    parts: tuple[ShapePlacement, ...]
    note: str = ""
    """What the policy could not do as asked, in words."""

    def all_cards(self) -> list[int]:
        if len(self.parts) == 1:
            return self.parts[0].cards.ravel().tolist()
        return [card for part in self.parts for card in part.cards.ravel().tolist()]

    def all_nodes(self) -> list[int]:
        """The node of every task."""
        return [node for part in self.parts for node in part.nodes.tolist()]

    def same_as(self, other: Placement) -> bool:
        return self.as_lists() == other.as_lists()

    def as_lists(self) -> list[dict[str, object]]:
        """Plain data, for dumps and for comparing."""
        return [{"group": p.request_index, "nodes": p.nodes.tolist(), "cards": p.cards.tolist()} for p in self.parts]
