"""Topology: fast links between the cards of a task, few racks for a gang."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import ClusterArraysView, Refusal, SpaceView, TaskGroup, Trial
from gpusquad.policies.place._tasks import fill_counted, least, put_shares
from gpusquad.registry import register

_domains_known: WeakKeyDictionary[ClusterArraysView, tuple[Ints, Ints]] = WeakKeyDictionary()


@register("place", "topology")
@dataclass(frozen=True)
class Topology(PlacePolicy):
    """All GPUs of a task in one NVLink domain, the fullest that fits; a gang in as few racks as possible."""

    strict: bool = False
    """Wait instead of spanning domains, if one domain could hold the task when idle."""

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        racks = _Racks(trial.space)
        spanning = 0
        for group in trial.groups:
            turn = racks.turns(trial.space.room(group.request), group.count)
            left = _inside_domains(group, trial, racks, turn) if group.request.gpus > 1 else group.count
            if not self._rest(group, trial, racks, turn, left):
                return trial.refuse(group)
            spanning += left if group.request.gpus > 1 else 0
        return trial.done(f"{spanning} tasks span NVLink domains" if spanning else "")

    def _rest(self, group: TaskGroup, trial: Trial, racks: _Racks, turn: Ints, left: int) -> bool:
        """Place tasks for which domains do not matter, or that fit in none."""
        request = group.request
        if not left:
            return True
        if request.share is not None:
            return _shares(group, trial, racks, turn)
        if self.strict and request.gpus > 1 and _fits_a_domain(trial.space.fixed, request):
            return False
        nodes = _nodes_by_rack(trial.space, request, turn)
        tasks = fill_counted(TaskGroup(group.index, request, left), trial, nodes)
        if tasks is None:
            return False
        racks.use(np.flatnonzero(tasks))
        return True


class _Racks:
    """Racks that the gang already uses, and the order in which to try them."""

    def __init__(self, space: SpaceView) -> None:
        self._rack = space.fixed.node_rack
        self._count = int(self._rack.max(initial=-1)) + 1
        self._used = np.zeros(self._count, dtype=bool)

    def turns(self, room: Ints, tasks: int) -> Ints:
        """Rank of every rack: those in use, then the fullest that holds all tasks, else the emptiest first."""
        rooms = np.bincount(self._rack, weights=room, minlength=self._count)
        holds_all = rooms >= tasks
        ranked = np.lexsort((np.where(holds_all, rooms, -rooms), ~holds_all, ~self._used))
        turn = np.empty(self._count, dtype=np.int64)
        turn[ranked] = np.arange(self._count)
        return turn

    def use(self, nodes: Ints) -> None:
        self._used[self._rack[nodes]] = True


def _inside_domains(group: TaskGroup, trial: Trial, racks: _Racks, turn: Ints) -> int:
    """Place tasks inside single domains; returns the number of tasks left over."""
    space, request = trial.space, group.request
    domain_of, node_of = _domains(space.fixed)
    idle = np.bincount(domain_of, weights=_idle(space, request), minlength=len(node_of)).astype(np.int64)
    fits = np.flatnonzero((idle >= request.gpus) & (space.room(request)[node_of] > 0))
    order = np.lexsort((idle[fits], turn[space.fixed.node_rack[node_of[fits]]]))
    left = group.count
    for domain in fits[order].tolist():
        node = int(node_of[domain])
        tasks = min(left, int(idle[domain]) // request.gpus, int(space.room(request)[node]))
        if tasks:
            cards = space.idle_cards_of(node, request)
            cards = cards[domain_of[cards] == domain][: tasks * request.gpus]
            trial.put(group, np.full(tasks, node), cards.reshape(tasks, request.gpus))
            racks.use(node_of[domain : domain + 1])
            left -= tasks
        if not left:
            break
    return left


def _shares(group: TaskGroup, trial: Trial, racks: _Racks, turn: Ints) -> bool:
    """Place shares on the fullest card with room, in the gang's racks first."""
    space = trial.space
    card_node = space.fixed.card_node
    card_turn = turn[space.fixed.node_rack[card_node]]

    def choose(cards: Ints) -> int:
        card = least(cards, card_turn, space.card_memory_free, space.card_sm_free)
        racks.use(card_node[card : card + 1])
        return card

    return put_shares(group, trial, choose)


def _idle(space: SpaceView, request: Request) -> np.ndarray:
    eligible = space.fixed.eligible_cards(request)
    return space.card_idle if eligible is None else space.card_idle & eligible


def _domains(fixed: ClusterArraysView) -> tuple[Ints, Ints]:
    """Domain of every card, numbered over the cluster, and node of every domain."""
    if fixed not in _domains_known:
        names, domain = np.unique(fixed.card_domain, return_inverse=True)
        keys, domain_of = np.unique(fixed.card_node * len(names) + domain, return_inverse=True)
        _domains_known[fixed] = domain_of, keys // max(len(names), 1)
    return _domains_known[fixed]


def _fits_a_domain(fixed: ClusterArraysView, request: Request) -> bool:
    """Whether any domain has enough eligible cards when idle."""
    domain_of, node_of = _domains(fixed)
    eligible = fixed.eligible_cards(request)
    cards = np.bincount(domain_of, weights=eligible, minlength=len(node_of))
    return bool(cards.max(initial=0) >= request.gpus)


def _nodes_by_rack(space: SpaceView, request: Request, turn: Ints) -> Ints:
    """Nodes with room: rack by rack, the fullest first."""
    nodes = np.flatnonzero(space.room(request))
    order = np.lexsort((space.node_cpu_free[nodes], space.node_idle[nodes], turn[space.fixed.node_rack[nodes]]))
    return nodes[order]
