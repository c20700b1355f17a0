"""Which obstacles keep a gang from fitting, found by lifting one kind at a time, then several.

An obstacle is *real* if it belongs to a minimal set of obstacles that, lifted together, lets the gang fit. A gang that
does not fit always has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import combinations

import numpy as np

from gpusquad.core.capacity.capacity import MAX_SHARERS
from gpusquad.core.capacity.space import Space
from gpusquad.model.job import Request
from gpusquad.model.node_sets import NodeSets
from gpusquad.model.placement import Ints
from gpusquad.model.units import WHOLE_MILLI


class Obstacle(StrEnum):
    """Difference between the current cluster and the configured one, healthy and empty."""

    CARDS = "cards"
    """Cards are in use."""
    CPU = "cpu"
    MEMORY = "memory"
    EXTRAS = "extras"
    """Other resources of nodes are in use."""
    WHERE = "where"
    """Nodes that are not allowed for the task."""
    DOWN = "down"
    """Lost cards and drained nodes."""
    WINDOW = "window"
    """Nodes with maintenance while the gang would run."""


Lifted = frozenset[Obstacle]
NOTHING: Lifted = frozenset()


class RelaxedSpaces:
    """The free capacity of an instant with some obstacles lifted."""

    def __init__(self, space: Space, closed: list[int]) -> None:
        self.space = space
        self.closed = np.array(closed, dtype=np.int64)
        self._known: dict[Lifted, Space] = {}

    def lifted(self, what: Lifted = NOTHING) -> Space:
        """The space with these obstacles lifted. Copy it before placing anything."""
        if what not in self._known:
            self._known[what] = _lift(self.space, what, self.closed)
        return self._known[what]

    def present(self, requests: Iterable[Request]) -> list[Obstacle]:
        """Obstacles that can affect such tasks."""
        asked = list(requests)
        matters = {
            Obstacle.CARDS: any(r.cards for r in asked),
            Obstacle.CPU: any(r.cpu_milli for r in asked),
            Obstacle.MEMORY: any(r.memory_bytes for r in asked),
            Obstacle.EXTRAS: any(r.extras for r in asked),
            Obstacle.WHERE: any(r.where for r in asked),
            Obstacle.DOWN: bool(self.space.card_broken.any() or not self.space.node_up.all()),
            Obstacle.WINDOW: len(self.closed) > 0,
        }
        return [obstacle for obstacle, does in matters.items() if does]


def real_obstacles(present: list[Obstacle], fits: Callable[[Lifted], bool]) -> list[Obstacle]:
    """All members of minimal sets that let the gang fit. Empty if it fits already, or even with all lifted does not."""
    smallest: list[Lifted] = []
    for size in range(len(present) + 1):
        for some in map(frozenset, combinations(present, size)):
            if not any(other <= some for other in smallest) and fits(some):
                smallest.append(some)
    return [obstacle for obstacle in present if any(obstacle in some for some in smallest)]


def _lift(space: Space, what: Lifted, closed: Ints) -> Space:
    free, fixed = space.copy(), space.fixed
    if Obstacle.DOWN in what:
        free.card_broken[:] = False
        free.node_up[:] = True
    if Obstacle.CARDS in what:
        free.card_foreign[:] = False
        free.card_memory_free[:] = fixed.card_memory
        free.card_sm_free[:] = WHOLE_MILLI
        free.card_slots_free[:] = MAX_SHARERS
        free.card_load[:] = 0.0
        free.sharers, free.expected_sharers = {}, {}
        free.card_neighbours_key[:] = 0
    if Obstacle.CPU in what:
        free.node_cpu_free[:] = fixed.node_cpu
    if Obstacle.MEMORY in what:
        free.node_memory_free[:] = fixed.node_memory
    if Obstacle.EXTRAS in what:
        free.node_extra_free[:] = fixed.node_extras
    if Obstacle.WHERE in what:
        free.allowed = _Anywhere(len(free.node_up))
    if Obstacle.WINDOW not in what:
        free.node_up[closed] = False
    _count_idle(free)
    return free


class _Anywhere(NodeSets):
    """Allows every node for every name."""

    def __init__(self, nodes: int) -> None:
        self._all = np.ones(nodes, dtype=bool)

    def get(self, key: object, default: object = None) -> np.ndarray:
        return self._all


def _count_idle(free: Space) -> None:
    """Update the derived arrays."""
    fixed = free.fixed
    free.card_ok = ~(free.card_broken | free.card_foreign)
    free.card_idle = free.card_ok & free.node_up[fixed.card_node] & (free.card_slots_free == MAX_SHARERS)
    per_node = np.bincount(fixed.card_node, weights=free.card_idle, minlength=len(free.node_up))
    free.node_idle = per_node.astype(np.int64)
    free.idle_total = int(free.node_idle.sum())
