"""Free capacity as arrays, one per resource, and all operations that change it.

``Space`` extends it with an index of what fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.model.cluster import ForeignUsage
from gpusquad.model.job import Job, Request
from gpusquad.model.node_sets import NodeSets, changed_nodes
from gpusquad.model.placement import Ints, Placement, ShapePlacement
from gpusquad.model.share_memory import memory_taken
from gpusquad.model.units import WHOLE_MILLI

MAX_SHARERS = 48
"""Client slots of a card: the number of MPS clients on every supported generation."""
NO_FOREIGN_USAGE = ForeignUsage()
_CHANGES_KEPT = 100_000
_NODES_KEPT = 2_000_000
"""Logged nodes, of all changes together. Gangs on thousands of nodes would otherwise fill the memory."""


class Capacity:
    """Capacity that is free now or, in a copy, at a future instant."""

    def __init__(self, fixed: ClusterArrays) -> None:
        self.fixed = fixed
        self.card_ok = np.ones(len(fixed.card_ids), dtype=bool)
        """Healthy and not in foreign use."""
        self.card_broken = np.zeros(len(fixed.card_ids), dtype=bool)
        self.card_foreign = np.zeros(len(fixed.card_ids), dtype=bool)
        self.card_memory_free = fixed.card_memory.copy()
        self.card_sm_free = np.full(len(fixed.card_ids), WHOLE_MILLI, dtype=np.int64)
        self.card_slots_free = np.full(len(fixed.card_ids), MAX_SHARERS, dtype=np.int64)
        self.card_idle = np.ones(len(fixed.card_ids), dtype=bool)
        self.node_up = np.ones(len(fixed.node_ids), dtype=bool)
        self.node_idle = fixed.node_cards.copy()
        self.node_cpu_free = fixed.node_cpu.copy()
        self.node_memory_free = fixed.node_memory.copy()
        self.node_extra_free = fixed.node_extras.copy()
        self.foreign: dict[int, ForeignUsage] = {}
        """Foreign usage by node."""
        self.allowed = NodeSets()
        """``Request.where`` -> allowed nodes. An unknown name allows none."""
        self.idle_total = int(self.node_idle.sum())
        self.all_well = True
        """No card lost, no node drained."""
        self.card_load = np.zeros(len(fixed.card_ids))
        self.sharers: dict[int, tuple[Job, ...]] = {}
        self.card_neighbours_key = np.zeros(len(fixed.card_ids), dtype=np.int64)
        """Equal for cards whose sharers are equivalent as neighbours. 0: no sharers."""
        self.expected_sharers: dict[int, tuple[tuple[Job, ...], ...]] = {}
        """Sets of jobs that will share a card later because of reservations. Only in copies that cover a period."""
        self.last_cards: frozenset[int] = frozenset()
        """Cards that the job being placed uses only if no others are idle. Set while it is placed."""
        self.version = 0
        """Number of the current contents, for caches of what depends on them. Each change sets a number that this space
        never had. Undoing a trial restores the earlier number with the earlier contents. Numbers of different spaces,
        for example of a copy, are not comparable. The order of the sharers of a card does not count as contents."""
        self._last_version = 0
        """Largest number that ``version`` ever had."""
        self._forget_changes()

    def copy(self) -> Self:
        """An independent copy."""
        other = object.__new__(type(self))
        other.fixed = self.fixed
        for name in ("card_ok", "card_broken", "card_foreign", "card_memory_free", "card_sm_free", "card_slots_free",
                     "card_idle", "card_load", "card_neighbours_key", "node_up", "node_idle", "node_cpu_free",
                     "node_memory_free", "node_extra_free"):  # fmt: skip
            setattr(other, name, getattr(self, name).copy())
        other.idle_total = self.idle_total
        other.all_well = self.all_well
        other.sharers, other.expected_sharers = dict(self.sharers), dict(self.expected_sharers)
        other.foreign, other.allowed = dict(self.foreign), self.allowed
        other.version = other._last_version = 0
        other.last_cards = frozenset()
        other._forget_changes()
        return other

    def take(self, job: Job, placement: Placement) -> None:
        """Subtract a gang."""
        for part in placement.parts:
            self.take_part(job, part)

    def release(self, job: Job, placement: Placement) -> None:
        """Add back the capacity of a gang."""
        for part in placement.parts:
            self.release_part(job, part)

    def take_part(self, job: Job, part: ShapePlacement) -> None:
        request = job.groups[part.request_index][0]
        cards = part.cards.ravel()
        if request.share is not None:
            self._change_shares(request, cards, -1)
            self._add_sharers(job, cards)
        elif request.gpus:
            self.card_memory_free[cards] = 0
            self.card_sm_free[cards] = 0
            self.card_slots_free[cards] = 0
            self._set_idle(cards, False)
        self._change_node(request, part.nodes, -1)

    def release_part(self, job: Job, part: ShapePlacement) -> None:
        request = job.groups[part.request_index][0]
        cards = part.cards.ravel()
        if request.share is not None:
            self._change_shares(request, cards, +1)
            self._remove_sharers(job, cards)
        elif request.gpus:
            self.card_memory_free[cards] = self.fixed.card_memory[cards]
            self.card_sm_free[cards] = WHOLE_MILLI
            self.card_slots_free[cards] = MAX_SHARERS
            self._set_idle(cards, True)
        self._change_node(request, part.nodes, +1)

    def release_rows(self, cards: Ints, nodes: Ints, amounts: Ints | None) -> None:
        """Release many whole cards at once. Rows with card -1 release only what a task used of its node."""
        if amounts is not None:
            np.add.at(self.node_cpu_free, nodes, amounts[:, 0])
            np.add.at(self.node_memory_free, nodes, amounts[:, 1])
            for row, free in enumerate(self.node_extra_free):
                np.add.at(free, nodes, amounts[:, 2 + row])
            cards = cards[cards >= 0]
        self.card_memory_free[cards] = self.fixed.card_memory[cards]
        self.card_sm_free[cards] = WHOLE_MILLI
        self.card_slots_free[cards] = MAX_SHARERS
        self._set_idle(cards, True)
        self._log_change(nodes)

    def keep_least(self, other: Capacity) -> None:
        """Reduce to what is free in both spaces, for a job that runs at both instants."""
        for name in ("card_memory_free", "card_sm_free", "card_slots_free", "node_cpu_free", "node_memory_free",
                     "node_extra_free"):  # fmt: skip
            mine = getattr(self, name)
            np.minimum(mine, getattr(other, name), out=mine)
        self._expect(other)
        self.card_ok &= other.card_ok
        self.node_up &= other.node_up
        self._note_health()
        self.card_idle &= other.card_idle
        fixed = self.fixed
        self.node_idle = np.bincount(fixed.card_node, weights=self.card_idle, minlength=len(self.node_up)).astype(
            np.int64
        )
        self.idle_total = int(self.node_idle.sum())
        self._forget_changes()

    def _expect(self, other: Capacity) -> None:
        """Record jobs that share a card only in ``other``: they join while a new job would be on it."""
        for card, there in other.sharers.items():
            here = {job.id for job in self.sharers.get(card, ())}
            if any(job.id not in here for job in there):
                self.expected_sharers[card] = (*self.expected_sharers.get(card, ()), there)
        for card, companies in other.expected_sharers.items():
            self.expected_sharers[card] = (*self.expected_sharers.get(card, ()), *companies)

    def healthy_cards(self) -> int:
        """Number of usable cards on nodes that are up."""
        if self.all_well:
            return len(self.card_ok)
        return int(np.count_nonzero(self.card_ok & self.node_up[self.fixed.card_node]))

    def set_card_ok(self, card: int, ok: bool) -> None:
        """Mark a card as lost or usable. The caller ends what runs there."""
        self.card_broken[card] = not ok
        self._card_changed(card)

    def set_foreign(self, node: int, foreign: ForeignUsage) -> None:
        """Replace the foreign usage of a node."""
        before = self.foreign.get(node, NO_FOREIGN_USAGE)
        if foreign == before:
            return
        self.foreign[node] = foreign
        self.node_cpu_free[node] -= foreign.cpu_milli - before.cpu_milli
        self.node_memory_free[node] -= foreign.memory_bytes - before.memory_bytes
        for sign, holds in ((1, before), (-1, foreign)):
            for name, amount in holds.extras:
                if name in self.fixed.extra_index:
                    self.node_extra_free[self.fixed.extra_index[name], node] += sign * amount
        held = {self.fixed.card_index[card] for card in foreign.cards if card in self.fixed.card_index}
        first = int(self.fixed.node_first[node])
        for card in range(first, first + int(self.fixed.node_cards[node])):
            if self.card_foreign[card] != (card in held):
                self.card_foreign[card] = card in held
                self._card_changed(card)
        self._log_change(np.array([node], dtype=np.int64))

    def set_allowed(self, allowed: Mapping[str, NDArray[np.bool_]]) -> None:
        """Replace the named sets of allowed nodes."""
        if allowed is self.allowed:
            return
        before, self.allowed = self.allowed, NodeSets.of(allowed)
        changed = changed_nodes(before, self.allowed)
        if changed is None:
            self._forget_changes()
        elif changed.any():
            self._log_change(np.flatnonzero(changed))

    def _card_changed(self, card: int) -> None:
        one = np.array([card], dtype=np.int64)
        self.card_ok[card] = not (self.card_broken[card] or self.card_foreign[card])
        self._note_health()
        self._set_idle(one, self.card_slots_free[one] == MAX_SHARERS)
        self._log_change(self.fixed.card_node[one])

    def set_node_up(self, node: int, up: bool) -> None:
        """Drain or reopen a node. Running work continues."""
        self.node_up[node] = up
        self._note_health()
        first = int(self.fixed.node_first[node])
        cards = np.arange(first, first + int(self.fixed.node_cards[node]))
        self._set_idle(cards, self.card_slots_free[cards] == MAX_SHARERS)
        self._log_change(np.array([node], dtype=np.int64))

    def hide(self, nodes: Ints) -> None:
        """Close these nodes for new work, in a copy."""
        for node in nodes:
            self.set_node_up(int(node), False)

    def _note_health(self) -> None:
        self.all_well = bool(self.card_ok.all() and self.node_up.all())

    def _change_shares(self, request: Request, cards: Ints, sign: int) -> None:
        share = request.share
        assert share is not None
        np.add.at(self.card_memory_free, cards, sign * memory_taken(share, self.fixed.card_memory[cards]))
        np.add.at(self.card_sm_free, cards, sign * share.sm_milli)
        np.add.at(self.card_slots_free, cards, sign)
        cards = np.unique(cards)
        self._set_idle(cards, self.card_slots_free[cards] == MAX_SHARERS)

    def _add_sharers(self, job: Job, cards: Ints) -> None:
        """Record the sharers of a card. Place policies use neighbours and the total load."""
        for card in cards.tolist():
            self.sharers[card] = (*self.sharers.get(card, ()), job)
            self.card_load[card] = summed_load(self.sharers[card])
        np.add.at(self.card_neighbours_key, cards, _kind(job))

    def _remove_sharers(self, job: Job, cards: Ints) -> None:
        for card in cards.tolist():
            left = list(self.sharers[card])
            left.remove(job)
            self.card_load[card] = summed_load(left)
            if left:
                self.sharers[card] = tuple(left)
            else:
                del self.sharers[card]
        np.subtract.at(self.card_neighbours_key, cards, _kind(job))

    def _set_idle(self, cards: Ints, idle: bool | NDArray[np.bool_]) -> None:
        """Idle: healthy, on a node that is up, and unused."""
        nodes = self.fixed.card_node[cards]
        before = self.card_idle[cards]
        if isinstance(idle, bool) and self.all_well and before.all() != idle and not (idle and before.any()):
            # The usual case: all of them change and none is lost or drained.
            self.card_idle[cards] = idle
            np.add.at(self.node_idle, nodes, 1 if idle else -1)
            self.idle_total += len(cards) if idle else -len(cards)
            return
        after = self.card_ok[cards] & self.node_up[nodes] & idle
        self.card_idle[cards] = after
        step = after.astype(np.int64) - before
        np.add.at(self.node_idle, nodes, step)
        self.idle_total += int(step.sum())

    def _change_node(self, request: Request, nodes: Ints, sign: int) -> None:
        if request.cpu_milli:
            np.add.at(self.node_cpu_free, nodes, sign * request.cpu_milli)
        if request.memory_bytes:
            np.add.at(self.node_memory_free, nodes, sign * request.memory_bytes)
        for name, amount in request.extras:
            if name in self.fixed.extra_index:
                np.add.at(self.node_extra_free[self.fixed.extra_index[name]], nodes, sign * amount)
        self._log_change(nodes)
        if len(self._changed) > _CHANGES_KEPT or self._changed_nodes > _NODES_KEPT:
            self._forget_changes()

    def _log_change(self, nodes: Ints) -> None:
        """Record that the contents changed, and on which nodes."""
        self._changed.append(nodes)
        self._changed_nodes += len(nodes)
        self._last_version = self.version = self._last_version + 1

    def _forget_changes(self) -> None:
        """Discard all cached results, because anything may have changed."""
        self._changed: list[Ints] = []
        """Changed nodes, oldest first."""
        self._changed_nodes = 0
        self._last_version = self.version = self._last_version + 1


def _kind(job: Job) -> int:
    """Hash of everything that matters to neighbours. Cards store the sum over their sharers; the shift keeps the sum of
    ``MAX_SHARERS`` hashes within 64 bits."""
    return hash((job.app, job.profile, job.gang, job.priority, job.slo)) >> 8


def summed_load(jobs: Iterable[Job]) -> float:
    """Total load of these jobs. Always summed from scratch, so that no rounding error accumulates."""
    return sum(job.profile.utilisation_ratio if job.profile else 0.0 for job in jobs)
