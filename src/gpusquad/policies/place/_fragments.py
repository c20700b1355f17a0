"""Expected fragmentation of every node, updated as nodes change.

A free part of a GPU is a *fragment* for a request that cannot use it: the node lacks CPU, memory or cards for the
request, or the card has too little left. Expected fragmentation is that amount averaged over typical demand, after
Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent", ATC '23.

One difference to that paper: there, CPU for one more task makes all free GPU of a node usable. Here at most ``mix``
times the GPU is usable that the free CPU and memory could serve if only such tasks arrived.

All amounts are integers (thousandths of a card times an integer weight) in floats. Their sums are exact in any order,
so cached results are bit-identical to recomputed ones.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.job import Request, Share
from gpusquad.model.placement import Ints
from gpusquad.model.share_memory import memory_taken
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.views import SpaceView

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Weighted = Sequence[tuple[Request, float]]

_WEIGHT_UNITS = 1 << 20
_CLASSES_KEPT = 512
_SHAPES_KEPT = 1024
_CHANGES_KEPT = 50_000
_NODES_AT_ONCE = 512  # bounds the memory of one evaluation
_NO_LIMIT = 1e15
_POWERS_OF_TWO = tuple((Request(gpus=n), 1.0 / n) for n in (1, 2, 4, 8))
"""Used while the demand is unknown."""


class Fragments:
    """Caches for each shape the cost of one more task on each node. Recomputes only what changed."""

    def __init__(self, space: SpaceView, weighted: Weighted, mix: float) -> None:
        self._demand = demand = _Demand(weighted, mix)
        nodes, kinds = len(space.node_up), len(demand.kinds)
        self._eligible = [space.fixed.eligible_cards(kind) for kind in demand.kinds]
        self._usable = np.zeros((len(space.card_ok), kinds))
        self._amount = np.zeros((nodes, kinds))
        self._count = np.zeros((nodes, kinds))
        self.left = np.zeros(nodes)
        self._fragments = np.zeros(nodes)
        self._last = _LastArrays(space)
        self._log: list[Ints] = []
        self._shapes: OrderedDict[Request, _Costs] = OrderedDict()
        self._refresh(space, np.arange(nodes))

    def look(self, space: SpaceView) -> None:
        """Update from a space, which may be any copy over the same cluster."""
        nodes = self._last.changed(space)
        if len(nodes):
            self.touch(space, nodes)

    def touch(self, space: SpaceView, nodes: Ints) -> None:
        """Update these nodes, the only ones that changed."""
        if len(self._log) >= _CHANGES_KEPT:
            self._log.clear()
            self._shapes.clear()
        self._last.update(space, nodes)
        self._refresh(space, nodes)
        self._log.append(nodes)

    def costs(self, space: SpaceView, request: Request) -> _Costs:
        """Fragmentation that one more such task adds on every node. Undefined on nodes without room for it."""
        known = self._shapes.get(request)
        if known is None:
            known = self._shapes[request] = _Costs(len(self.left))
            self._work_out(space, request, known, np.arange(len(self.left)))
            if len(self._shapes) > _SHAPES_KEPT:
                self._shapes.popitem(last=False)
        elif known.seen < len(self._log):
            self._work_out(space, request, known, np.unique(np.concatenate(self._log[known.seen :])))
        known.seen = len(self._log)
        return known

    def _refresh(self, space: SpaceView, changed: Ints) -> None:
        for nodes in _chunks(changed):
            cards, owner = _cards_of(space, nodes)
            free = _Free.of(space, cards)
            usable = self._usable_of(free)
            self._usable[cards] = usable
            self._amount[nodes] = _sum_by(owner, usable, len(nodes))
            self._count[nodes] = _sum_by(owner, usable > 0, len(nodes))
            self.left[nodes] = np.bincount(owner, weights=free.left, minlength=len(nodes))
            limit = self._demand.limits(space.node_cpu_free[nodes], space.node_memory_free[nodes])
            self._fragments[nodes] = self._demand.fragments(
                self.left[nodes], limit, self._amount[nodes], self._count[nodes]
            )

    def _work_out(self, space: SpaceView, request: Request, known: _Costs, changed: Ints) -> None:
        for nodes in _chunks(changed):
            cpu = space.node_cpu_free[nodes] - request.cpu_milli
            limit = self._demand.limits(cpu, space.node_memory_free[nodes] - request.memory_bytes)
            if request.share is None:
                after = self._after_whole(space, request, nodes, limit)
                known.added[nodes] = after - self._fragments[nodes]
            else:
                self._work_out_share(space, request, known, nodes, limit)

    def _after_whole(self, space: SpaceView, request: Request, nodes: Ints, limit: Floats) -> Floats:
        """Fragmentation after taking the first idle cards (none for a CPU-only task)."""
        left, amount, count = self.left[nodes], self._amount[nodes], self._count[nodes]
        if request.gpus:
            taken = _first_idle(space, request, nodes)
            owner = np.searchsorted(nodes, space.fixed.card_node[taken])
            gone = self._usable[taken]
            left = left - WHOLE_MILLI * np.bincount(owner, minlength=len(nodes))
            amount = amount - _sum_by(owner, gone, len(nodes))
            count = count - _sum_by(owner, gone > 0, len(nodes))
        return self._demand.fragments(left, limit, amount, count)

    def _work_out_share(self, space: SpaceView, request: Request, known: _Costs, nodes: Ints, limit: Floats) -> None:
        """Try every card that fits; keep the best per node. Ties: the fullest."""
        cards, owner = _cards_of(space, nodes)
        free = _Free.of(space, cards)
        fits = free.fits(request, space.fixed.eligible_cards(request))
        free, cards, owner = free.pick(fits), cards[fits], owner[fits]
        after = free.less(request.share)
        usable, before = self._usable_of(after), self._usable[cards]
        node = nodes[owner]
        fragments = self._demand.fragments(
            self.left[node] - free.left + after.left,
            limit[owner],
            self._amount[node] - before + usable,
            self._count[node] - (before > 0) + (usable > 0),
        )
        added = fragments - self._fragments[node]
        order = np.lexsort((free.left, added, owner))
        with_room, first = np.unique(owner[order], return_index=True)
        best = order[first]
        known.added[nodes[with_room]] = added[best]
        known.card[nodes[with_room]] = cards[best]

    def _usable_of(self, free: _Free) -> Floats:
        """What each kind could use of each card: all that is free, or nothing."""
        columns = [
            free.left * free.fits(kind, eligible)
            for kind, eligible in zip(self._demand.kinds, self._eligible, strict=True)
        ]
        return np.stack(columns, axis=1)


class _Costs:
    """Costs of one shape on every node: the added fragmentation, and the card (shares only)."""

    __slots__ = ("added", "card", "seen")

    def __init__(self, nodes: int) -> None:
        self.added = np.zeros(nodes)
        self.card = np.full(nodes, -1, dtype=np.int64)
        self.seen = 0


class _Demand:
    """Typical requests as *classes*, and by *kind*: the request for cards without CPU and memory."""

    def __init__(self, weighted: Weighted, mix: float) -> None:
        wanted = [(request, weight) for request, weight in weighted if request.cards and weight > 0]
        wanted = sorted(wanted, key=lambda each: -each[1])[:_CLASSES_KEPT] or list(_POWERS_OF_TWO)
        kinds: dict[Request, int] = {}
        self._kind_of = np.array([kinds.setdefault(_kind(request), len(kinds)) for request, _ in wanted])
        self.kinds = list(kinds)
        self._gpus = np.array([max(kind.gpus, 1) for kind in self.kinds])
        total = sum(weight for _, weight in wanted)
        self._weights = np.array([max(round(weight / total * _WEIGHT_UNITS), 1) for _, weight in wanted], dtype=float)
        self._total = float(self._weights.sum())
        self._cpu = np.array([request.cpu_milli for request, _ in wanted])
        self._memory = np.array([request.memory_bytes for request, _ in wanted])
        gpu = np.array([max(request.gpu_milli, 1) for request, _ in wanted])
        self._per_cpu = mix * gpu / np.maximum(self._cpu, 1)
        self._per_memory = mix * gpu / np.maximum(self._memory, 1)
        self._no_cpu = np.where(self._cpu == 0, _NO_LIMIT, 0.0)
        self._no_memory = np.where(self._memory == 0, _NO_LIMIT, 0.0)

    def limits(self, cpu: Ints, memory: Ints) -> Floats:
        """GPU that each class could use on nodes with this CPU and memory. 0: not enough for one task."""
        cpu, memory = cpu[:, None], memory[:, None]
        by_cpu = cpu * self._per_cpu + self._no_cpu
        by_memory = memory * self._per_memory + self._no_memory
        limit = np.floor(np.minimum(by_cpu, by_memory))
        return limit * ((cpu >= self._cpu) & (memory >= self._memory))

    def fragments(self, left: Floats, limit: Floats, amount: Floats, count: Floats) -> Floats:
        """Free capacity minus usable capacity, summed over all classes."""
        amount = amount * (count >= self._gpus)
        return left * self._total - np.minimum(amount[:, self._kind_of], limit) @ self._weights


@dataclass(frozen=True, slots=True)
class _Free:
    """Free capacity of some cards."""

    cards: Ints
    capacity: Ints
    memory: Ints
    sm: Ints
    slots: Ints
    ok: Bools
    idle: Bools
    left: Floats
    """Thousandths of the card: the scarcer of SMs and memory."""

    @staticmethod
    def of(space: SpaceView, cards: Ints) -> _Free:
        fixed = space.fixed
        ok = space.card_ok[cards] & space.node_up[fixed.card_node[cards]]
        capacity, memory, sm = fixed.card_memory[cards], space.card_memory_free[cards], space.card_sm_free[cards]
        left = _left(capacity, memory, sm) * ok
        return _Free(cards, capacity, memory, sm, space.card_slots_free[cards], ok, space.card_idle[cards], left)

    def pick(self, which: Bools) -> _Free:
        return _Free(self.cards[which], self.capacity[which], self.memory[which], self.sm[which], self.slots[which],
                     self.ok[which], self.idle[which], self.left[which])  # fmt: skip

    def less(self, share: Share | None) -> _Free:
        """The same cards with this share taken from each."""
        assert share is not None
        memory, sm = self.memory - memory_taken(share, self.capacity), self.sm - share.sm_milli
        left = _left(self.capacity, memory, sm)
        return _Free(
            self.cards, self.capacity, memory, sm, self.slots - 1, self.ok, np.zeros_like(self.idle), left * self.ok
        )

    def fits(self, request: Request, eligible: Bools | None) -> Bools:
        """Cards that such a task could use."""
        if request.share is None:
            fits = self.idle
        else:
            fits = self.ok & (self.slots > 0) & (self.memory >= memory_taken(request.share, self.capacity))
            fits = fits & (self.sm >= request.share.sm_milli)
        return fits if eligible is None else fits & eligible[self.cards]


class _LastArrays:
    """Copies of the arrays from the last update, to detect changes: a space has no change log for policies."""

    _OF_CARDS = ("card_ok", "card_idle", "card_memory_free", "card_sm_free", "card_slots_free")
    _OF_NODES = ("node_up", "node_cpu_free", "node_memory_free")

    def __init__(self, space: SpaceView) -> None:
        self._was = {name: getattr(space, name).copy() for name in self._OF_CARDS + self._OF_NODES}

    def changed(self, space: SpaceView) -> Ints:
        cards = self._differ(space, self._OF_CARDS)
        nodes = self._differ(space, self._OF_NODES)
        return np.unique(np.concatenate((space.fixed.card_node[cards], nodes)))

    def update(self, space: SpaceView, nodes: Ints) -> None:
        cards, _ = _cards_of(space, nodes)
        for names, which in ((self._OF_CARDS, cards), (self._OF_NODES, nodes)):
            for name in names:
                self._was[name][which] = getattr(space, name)[which]

    def _differ(self, space: SpaceView, names: tuple[str, ...]) -> Ints:
        differs = getattr(space, names[0]) != self._was[names[0]]
        for name in names[1:]:
            differs |= getattr(space, name) != self._was[name]
        return np.flatnonzero(differs)


def _kind(request: Request) -> Request:
    return Request(request.gpus, request.share, 0, 0, request.gpu_models, request.min_card_memory_bytes, request.card)


def _left(capacity: Ints, memory: Ints, sm: Ints) -> Floats:
    """Free thousandths. A card with unknown memory counts by its SMs."""
    of_memory = np.where(capacity > 0, (memory * WHOLE_MILLI + capacity // 2) // np.maximum(capacity, 1), WHOLE_MILLI)
    return np.maximum(np.minimum(sm, of_memory), 0).astype(float)


def _first_idle(space: SpaceView, request: Request, nodes: Ints) -> Ints:
    """The cards a whole-GPU task would get on each of these nodes."""
    cards, owner = _cards_of(space, nodes)
    idle = space.card_idle[cards]
    eligible = space.fixed.eligible_cards(request)
    if eligible is not None:
        idle = idle & eligible[cards]
    cards, owner = cards[idle], owner[idle]
    counts = np.bincount(owner, minlength=len(nodes))
    rank = np.arange(len(cards)) - (np.cumsum(counts) - counts)[owner]
    return cards[rank < request.gpus]


def _cards_of(space: SpaceView, nodes: Ints) -> tuple[Ints, Ints]:
    """All cards of these nodes, and for each the position of its node in ``nodes``."""
    counts = space.fixed.node_cards[nodes]
    owner = np.repeat(np.arange(len(nodes)), counts)
    within = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    return space.fixed.node_first[nodes][owner] + within, owner


def _sum_by(owner: Ints, rows: NDArray, count: int) -> Floats:
    """Rows summed by owner; owners come in order."""
    sums = np.zeros((count, rows.shape[1]))
    present, starts = np.unique(owner, return_index=True)
    if len(present):
        sums[present] = np.add.reduceat(rows.astype(float), starts, axis=0)
    return sums


def _chunks(nodes: Ints) -> Iterator[Ints]:
    for start in range(0, len(nodes), _NODES_AT_ONCE):
        yield nodes[start : start + _NODES_AT_ONCE]
