"""Index over free capacity: how many tasks of a shape fit on each node.

The room of each *shape* (a distinct request) is cached per node. It is updated lazily, from the log of nodes that
changed since the last query.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from gpusquad.core.capacity.capacity import Capacity
from gpusquad.model.job import Job, Request, Share
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.share_memory import memory_taken

_UNLIMITED = 1 << 30
_SHAPES_KEPT = 4096


class _Room:
    """Number of tasks of one shape that fit on each node, valid up to change number ``seen``."""

    __slots__ = ("per_node", "seen", "total")

    def __init__(self, per_node: Ints, seen: int) -> None:
        self.per_node = per_node
        self.total = int(per_node.sum())
        self.seen = seen


class Space(Capacity):
    """Free capacity with cached room per shape."""

    def room(self, request: Request) -> Ints:
        """Number of tasks of this shape that fit on each node."""
        if request.needs_only_idle_cards:
            return self.node_idle
        return self._room(request).per_node

    def total_room(self, request: Request) -> int:
        """Number of tasks of this shape that fit on the whole cluster."""
        if request.needs_only_idle_cards:
            return self.idle_total
        return self._room(request).total

    def fits(self, job: Job) -> bool:
        """Whether the whole gang fits. Exact for gangs of one shape, a necessary condition for mixed ones."""
        gang = job.gang
        if len(gang.groups) == 1:
            return self.total_room(gang.groups[0][0]) >= gang.bounds[0][0]
        return all(
            self.total_room(request) >= low for (request, _), (low, _) in zip(gang.groups, gang.bounds, strict=True)
        )

    def card_room(self, request: Request, cards: Ints | slice = slice(None)) -> Ints:
        """Number of tasks with this share that fit on each of these cards."""
        share = request.share
        assert share is not None
        room = np.minimum(self.card_slots_free[cards], self._memory_room(share, cards))
        if share.sm_milli:
            room = np.minimum(room, self.card_sm_free[cards] // share.sm_milli)
        room = np.maximum(room, 0) * self.card_ok[cards]
        eligible = self.fixed.eligible_cards(request)
        return room if eligible is None else room * eligible[cards]

    def _memory_room(self, share: Share, cards: Ints | slice) -> Ints:
        free = self.card_memory_free[cards]
        if share.memory_bytes:
            return free // share.memory_bytes
        taken = memory_taken(share, self.fixed.card_memory[cards])
        return np.where(taken, free // np.maximum(taken, 1), _UNLIMITED)

    def _room(self, request: Request) -> _Room:
        known = self._rooms.get(request)
        changes = len(self._changed)
        if known is None:
            known = self._rooms[request] = _Room(self._work_out_room(request, None), changes)
            if len(self._rooms) > _SHAPES_KEPT:
                self._rooms.popitem(last=False)
        elif known.seen < changes:
            self._catch_up(request, known, changes)
        return known

    def _catch_up(self, request: Request, known: _Room, changes: int) -> None:
        nodes = self._changed[known.seen] if changes - known.seen == 1 else np.concatenate(self._changed[known.seen :])
        known.per_node[nodes] = self._work_out_room(request, nodes)
        known.total = int(known.per_node.sum())
        known.seen = changes

    def _work_out_room(self, request: Request, nodes: Ints | None) -> Ints:
        pick = slice(None) if nodes is None else nodes
        if request.share is not None:
            room = self._share_room(request, nodes)
        elif request.gpus:
            room = self._idle_eligible(request, nodes) // request.gpus
        else:
            room = np.full(len(self.node_up) if nodes is None else len(nodes), _UNLIMITED, dtype=np.int64)
        if request.cpu_milli:
            room = np.minimum(room, self.node_cpu_free[pick] // request.cpu_milli)
        if request.memory_bytes:
            room = np.minimum(room, self.node_memory_free[pick] // request.memory_bytes)
        for name, amount in request.extras:
            row = self.fixed.extra_index.get(name)
            room = np.minimum(room, 0 if row is None else self.node_extra_free[row][pick] // amount)
        if request.most_per_node:
            placed = self._placed.get(request)
            room = np.minimum(room, request.most_per_node - (0 if placed is None else placed[pick]))
        return np.maximum(room, 0) * self._open_nodes(request)[pick]

    def _open_nodes(self, request: Request) -> NDArray[np.bool_]:
        """Nodes that are up and allowed for such a task."""
        return self.node_up & self.allowed.get(request.where, np.False_) if request.where else self.node_up

    def node_fits(self, request: Request) -> NDArray[np.bool_]:
        """Nodes with everything that one task needs, except cards."""
        fits = self.node_cpu_free >= request.cpu_milli
        fits &= self.node_memory_free >= request.memory_bytes
        for name, amount in request.extras:
            row = self.fixed.extra_index.get(name)
            fits &= False if row is None else self.node_extra_free[row] >= amount
        return fits & self._open_nodes(request)

    def _idle_eligible(self, request: Request, nodes: Ints | None) -> Ints:
        eligible = self.fixed.eligible_cards(request)
        if eligible is None:
            return self.node_idle if nodes is None else self.node_idle[nodes]
        return self._sum_by_node(lambda cards: self.card_idle[cards] & eligible[cards], nodes)

    def _share_room(self, request: Request, nodes: Ints | None) -> Ints:
        return self._sum_by_node(lambda cards: self.card_room(request, cards), nodes)

    def _sum_by_node(self, value, nodes: Ints | None) -> Ints:
        fixed = self.fixed
        if nodes is None:
            sums = np.bincount(fixed.card_node, weights=value(slice(None)), minlength=len(self.node_up))
            return sums.astype(np.int64)
        cards, owner = self.cards_of(nodes)
        return np.bincount(owner, weights=value(cards), minlength=len(nodes)).astype(np.int64)

    def cards_of(self, nodes: Ints) -> tuple[Ints, Ints]:
        """All cards of these nodes, and for each the position of its node in ``nodes``."""
        counts = self.fixed.node_cards[nodes]
        owner = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.fixed.node_first[nodes][owner] + within, owner

    def idle_cards_of(self, node: int, request: Request) -> Ints:
        """Idle cards of a node that such a task may use, in card order."""
        first = int(self.fixed.node_first[node])
        idle = self.card_idle[first : first + int(self.fixed.node_cards[node])]
        eligible = self.fixed.eligible_cards(request)
        if eligible is not None:
            idle = idle & eligible[first : first + len(idle)]
        cards = idle.nonzero()[0] + first
        return self._others_first(cards) if self.last_cards else cards

    def other_nodes_first(self, nodes: Ints) -> Ints:
        """The same nodes, those with a card to avoid at the end."""
        if not self.last_cards:
            return nodes
        avoided = {int(self.fixed.card_node[card]) for card in self.last_cards}
        is_last = np.array([node in avoided for node in nodes.tolist()], dtype=bool)
        return np.concatenate([nodes[~is_last], nodes[is_last]])

    def _others_first(self, cards: Ints) -> Ints:
        is_last = np.array([card in self.last_cards for card in cards.tolist()], dtype=bool)
        return np.concatenate([cards[~is_last], cards[is_last]])

    def holds(self, job: Job, placement: Placement) -> bool:
        """Whether the gang fits on exactly these cards."""
        after = self.copy()
        for part in placement.parts:
            if job.groups[part.request_index][0].share is None and not after.card_idle[part.cards.ravel()].all():
                return False
            after.take_part(job, part)
        nodes, cards = placement.all_nodes(), placement.all_cards()
        return bool(
            self.node_up[nodes].all() and self.card_ok[cards].all()
            and (after.card_memory_free[cards] >= 0).all() and (after.card_sm_free[cards] >= 0).all()
            and (after.card_slots_free[cards] >= 0).all()
            and (after.node_cpu_free[nodes] >= 0).all() and (after.node_memory_free[nodes] >= 0).all()
            and (after.node_extra_free[:, nodes] >= 0).all() and self._may_hold(job, placement)
        )  # fmt: skip

    def _may_hold(self, job: Job, placement: Placement) -> bool:
        """Whether all nodes are allowed and ``most_per_node`` is respected."""
        for part in placement.parts:
            request = job.groups[part.request_index][0]
            if not self._open_nodes(request)[part.nodes].all():
                return False
            if request.most_per_node and np.bincount(part.nodes).max(initial=0) > request.most_per_node:
                return False
        return True

    def count_placed(self, request: Request, nodes: Ints) -> None:
        """Count tasks of the gang being placed, for ``most_per_node``."""
        placed = self._placed.setdefault(request, np.zeros(len(self.node_up), dtype=np.int64))
        np.add.at(placed, nodes, 1)
        self._log_change(nodes)

    def forget_placed(self) -> None:
        """Reset these counts when the placement of a gang has ended."""
        for placed in self._placed.values():
            self._log_change(np.flatnonzero(placed))
        self._placed = {}

    def _forget_changes(self) -> None:
        super()._forget_changes()
        self._rooms: OrderedDict[Request, _Room] = OrderedDict()
        self._placed: dict[Request, Ints] = {}
