"""A placement being built on a space, which can be undone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Ints, Placement, ShapePlacement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.views import LeftUs, Refusal, TaskGroup


class SpaceTrial:
    """Implements ``model.views.Trial``. ``put`` takes capacity from the space at once; ``undo`` releases all of it.
    Nothing else changes the space in between."""

    __slots__ = ("_before", "_parts", "demand", "groups", "job", "left_us", "must_place", "rate", "space", "waiting")

    def __init__(self, space: Space, job: Job, demand: Sequence[tuple[Request, float]] = (),
                 counts: Sequence[int] | None = None, turn: int = 0, rate: Rate | None = None,
                 must_place: bool = False, left_us: LeftUs | None = None, waiting: int = 1) -> None:  # fmt: skip
        self.space = space
        self.rate = rate
        self.left_us = left_us
        self.waiting = waiting
        self.must_place = must_place
        self.job = job
        self.demand = demand
        groups = _groups(job, counts)
        self.groups = groups[turn:] + groups[:turn]
        self._parts: list[ShapePlacement] = []
        self._before = space.version
        """Version of the space before the first ``put``."""

    def put(self, group: TaskGroup, nodes: Ints, cards: Ints) -> None:
        part = ShapePlacement(group.index, nodes, cards)
        if not self._parts:
            self._before = self.space.version
        self.space.take_part(self.job, part)
        self._parts.append(part)
        if group.request.most_per_node:
            self.space.count_placed(group.request, nodes)

    def fill(self, group: TaskGroup, nodes: Ints, per_node: int | None = None) -> bool:
        nodes = self.space.other_nodes_first(nodes)
        if group.request.share is not None:
            return self._fill_shares(group, nodes, per_node)
        room = self.space.room(group.request)[nodes]
        if group.count == 1 and len(nodes) and room[0]:
            self._put_one(group, nodes[:1])
            return True
        if per_node is not None:
            return self._fill_by_turns(group, nodes, room, per_node)
        upto = room.cumsum()
        last = int(upto.searchsorted(group.count))
        if last == len(nodes):
            return False
        room = room[: last + 1].copy()
        room[-1] -= upto[last] - group.count
        self._put_whole(group, nodes[: last + 1], room)
        return True

    def done(self, note: str = "") -> Placement:
        self.space.forget_placed()
        parts = self._parts
        if len(parts) > len(self.groups):
            parts = [_merged([p for p in parts if p.request_index == g.index]) for g in self.groups]
        return Placement(tuple(sorted(parts, key=lambda p: p.request_index)) if len(parts) > 1 else tuple(parts), note)

    def refuse(self, group: TaskGroup, code: ReasonCode = ReasonCode.NO_BLOCK, note: str = "") -> Refusal:
        self.undo()
        return Refusal(code, float(self.space.total_room(group.request)), note)

    def undo(self) -> None:
        """Release everything put so far. The space has its earlier contents again, and their version."""
        self.space.forget_placed()
        if not self._parts:
            return
        while self._parts:
            self.space.release_part(self.job, self._parts.pop())
        self.space.version = self._before

    def _put_one(self, group: TaskGroup, node: Ints) -> None:
        """Fast path for one task, the most frequent case."""
        gpus = group.request.gpus
        if gpus:
            cards = self.space.idle_cards_of(int(node[0]), group.request)[:gpus]
        else:
            cards = np.empty(0, dtype=np.int64)
        self.put(group, node, cards.reshape(1, gpus))

    def _put_whole(self, group: TaskGroup, nodes: Ints, tasks: Ints) -> None:
        gpus = group.request.gpus
        per_task = np.repeat(nodes, tasks)
        if gpus == 0:
            cards = np.empty((len(per_task), 0), dtype=np.int64)
        elif self.space.fixed.one_card_each:
            cards = self.space.fixed.node_first[per_task].reshape(-1, 1)
        else:
            idle_cards_of, request = self.space.idle_cards_of, group.request
            chosen = [
                idle_cards_of(n, request)[: k * gpus] for n, k in zip(nodes.tolist(), tasks.tolist(), strict=True)
            ]
            cards = (chosen[0] if len(chosen) == 1 else np.concatenate(chosen)).reshape(-1, gpus)
        self.put(group, per_task, cards)

    def _fill_by_turns(self, group: TaskGroup, nodes: Ints, room: Ints, per_node: int) -> bool:
        if int(room.sum()) < group.count:
            return False
        tasks = np.zeros(len(nodes), dtype=np.int64)
        left = group.count
        while left:
            turn = np.minimum(room - tasks, per_node)
            turn = np.minimum(turn, np.maximum(left - (np.cumsum(turn) - turn), 0))
            tasks += turn
            left -= int(turn.sum())
        used = tasks > 0
        self._put_whole(group, nodes[used], tasks[used])
        return True

    def _fill_shares(self, group: TaskGroup, nodes: Ints, per_node: int | None) -> bool:
        """Place shares card by card, starting with the fullest that has room."""
        left = group.count
        while left:
            placed = 0
            for node in nodes.tolist():
                placed += self._share_tasks_on(node, group, min(left - placed, per_node or left))
                if placed == left:
                    break
            left -= placed
            if not placed:
                return False
        return True

    def _share_tasks_on(self, node: int, group: TaskGroup, most: int) -> int:
        placed = 0
        while placed < most and self.space.room(group.request)[node]:
            first = int(self.space.fixed.node_first[node])
            cards = np.arange(first, first + int(self.space.fixed.node_cards[node]))
            cards = cards[self.space.card_room(group.request, cards) > 0]
            best = cards[np.argmin(self.space.card_memory_free[cards])]
            self.put(group, np.array([node]), np.array([[best]]))
            placed += 1
        return placed


def _groups(job: Job, counts: Sequence[int] | None) -> tuple[TaskGroup, ...]:
    counts = [count for _, count in job.groups] if counts is None else counts
    groups = [TaskGroup(i, request, counts[i]) for i, (request, _) in enumerate(job.groups) if counts[i] > 0]
    if len(groups) > 1:
        groups.sort(key=_hardest_first)
    return tuple(groups)


def _hardest_first(group: TaskGroup) -> tuple:
    """Sort key: groups that need a named card or model first, then by descending GPU memory."""
    request = group.request
    return (request.card is None, not request.gpu_models, -_gpu_memory(request), -request.gpus, -request.cpu_milli,
            group.index)  # fmt: skip


def _gpu_memory(request: Request) -> int:
    """GPU memory of a task. The card is not chosen yet, so whole cards count as larger than any share."""
    return (
        request.share.memory_on(1 << 40)
        if request.share
        else request.gpus * (request.min_card_memory_bytes + (1 << 40))
    )


def _merged(parts: list[ShapePlacement]) -> ShapePlacement:
    if len(parts) == 1:
        return parts[0]
    return ShapePlacement(
        parts[0].request_index, np.concatenate([p.nodes for p in parts]), np.concatenate([p.cards for p in parts])
    )
