"""Placements: nodes and cards of every task, as indexes into the cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ShapePlacement:
    """Placement of the tasks of one shape. ``cards`` has one row per task (no columns for CPU-only tasks)."""

    request_index: int
    nodes: Ints
    cards: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Placement of a whole gang. Parts are in the order of ``Job.groups``."""

    parts: tuple[ShapePlacement, ...]
    note: str = ""
    """What the place policy could not satisfy, for users."""

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
        """Plain data for snapshots and comparison."""
        return [{"group": p.request_index, "nodes": p.nodes.tolist(), "cards": p.cards.tolist()} for p in self.parts]
