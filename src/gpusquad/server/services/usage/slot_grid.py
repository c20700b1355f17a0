"""State of the cards over time: allocated, closed or free, and whether a pending gang could have used them.

Time is split into slots, and slots into evenly spaced samples. Everything is an array of cards (or nodes) by samples,
so a day of a thousand cards takes a few operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
LOOKS = 30
"""Samples per slot."""


@dataclass(frozen=True, slots=True)
class SlotGrid:
    """Slots of equal length. The last one may not have ended."""

    start_us: int
    slot_us: int
    slots: int
    now_us: int

    @property
    def looks_us(self) -> NDArray[np.int64]:
        """Times of the samples, in the middle of the part of the slot that each represents."""
        step_us = self.slot_us / LOOKS
        return (self.start_us + (np.arange(self.slots * LOOKS) + 0.5) * step_us).astype(np.int64)

    @property
    def look_s(self) -> float:
        return self.slot_us / LOOKS / 1e6

    def between(self, start_us: int, end_us: int | None) -> slice:
        """Samples within a span. None: no end."""
        step_us = self.slot_us / LOOKS
        first = np.ceil((start_us - self.start_us) / step_us - 0.5)
        last = self.slots * LOOKS if end_us is None else np.ceil((end_us - self.start_us) / step_us - 0.5)
        return slice(max(0, int(first)), max(0, int(last)))


@dataclass(frozen=True, slots=True)
class GangWait:
    """A gang that was pending, with start and end. None: it still is."""

    job_id: str
    gpus: int
    start_us: int
    end_us: int | None


Shape = tuple[int, int]
"""Of a gang: cards of its widest task, and the number of such tasks that make up the whole."""
Shapes = Callable[[Sequence[str]], Mapping[str, Shape]]
"""Called for few gangs only, because each takes long."""


@dataclass(frozen=True, slots=True)
class CardSeconds:
    """Cards by slots, in seconds."""

    given: Floats
    shut: Floats
    fragmented: Floats
    idle_waiting: Floats
    idle: Floats


def held(
    grid: SlotGrid,
    nodes: NDArray[np.int64],
    given: Iterable[tuple[Sequence[int], int, int | None]],
    shut: Iterable[tuple[Sequence[int], int, int | None]],
    waits: Iterable[GangWait],
    shapes: Shapes,
) -> CardSeconds:
    """``nodes``: index of each card's node. A card that was closed and allocated counts as allocated, because its job
    continues."""
    is_given, is_shut = _marked(grid, len(nodes), given), _marked(grid, len(nodes), shut)
    is_past = grid.looks_us < grid.now_us
    is_given &= is_past
    is_shut &= is_past & ~is_given
    is_free = ~is_given & ~is_shut & is_past
    per_task, tasks = _smallest(grid, waits, shapes)
    useless = _useless(is_free, nodes, per_task, tasks)[nodes]
    waiting = per_task > 0

    def in_slots(looks: NDArray) -> Floats:
        return looks.reshape(len(nodes), grid.slots, LOOKS).sum(axis=2, dtype=np.float64) * grid.look_s

    return CardSeconds(
        in_slots(is_given), in_slots(is_shut), in_slots(is_free * useless),
        in_slots(is_free * waiting * (1.0 - useless)), in_slots(is_free & ~waiting),
    )  # fmt: skip


def _marked(grid: SlotGrid, cards: int, spans: Iterable[tuple[Sequence[int], int, int | None]]) -> Bools:
    marked = np.zeros((cards, grid.slots * LOOKS), dtype=bool)
    for which, start_us, end_us in spans:
        looks = grid.between(start_us, end_us)
        for card in which:
            marked[card, looks] = True
    return marked


def _smallest(grid: SlotGrid, waits: Iterable[GangWait], shapes: Shapes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """At each sample, the shape of the pending gang with the fewest cards. 0: none was pending."""
    # The largest are written first, so that smaller ones overwrite them; of equal ones the first submitted.
    ordered = sorted(waits, key=lambda one: (-one.gpus, -one.start_us, one.job_id))
    which = np.full(grid.slots * LOOKS, -1, dtype=np.int64)
    for at, wait in enumerate(ordered):
        which[grid.between(wait.start_us, wait.end_us)] = at
    present = [int(at) for at in np.unique(which) if at >= 0]
    known = shapes([ordered[at].job_id for at in present])
    per_task, tasks = np.zeros_like(which), np.zeros_like(which)
    for at in present:
        per_task[which == at], tasks[which == at] = known.get(ordered[at].job_id, (ordered[at].gpus, 1))
    return per_task, tasks


def _useless(is_free: Bools, nodes: NDArray[np.int64], per_task: NDArray, tasks: NDArray) -> Floats:
    """Nodes by samples: fraction of the free cards that the smallest gang cannot use. All of them where it does not fit
    as a whole, because of leftovers on nodes or too many nodes."""
    free = _by_node(is_free, nodes)
    size = np.maximum(per_task, 1)
    room = free // size
    used = np.where(room.sum(axis=0) >= np.maximum(tasks, 1), room * size, 0)
    return np.where((per_task > 0) & (free > 0), 1.0 - used / np.maximum(free, 1), 0.0)


def _by_node(is_free: Bools, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Cards counted by node. Every node has one."""
    if not len(nodes):
        return np.zeros((0, is_free.shape[1]), dtype=np.int64)
    order = np.argsort(nodes, kind="stable")
    firsts = np.searchsorted(nodes[order], np.arange(int(nodes.max()) + 1))
    return np.add.reduceat(is_free[order].astype(np.int64), firsts, axis=0)
