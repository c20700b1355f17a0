"""Spread: limit the damage of a failing node or card."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import Refusal, TaskGroup, Trial
from gpusquad.policies.place._tasks import fill_counted, least, put_shares
from gpusquad.registry import register


@register("place", "spread")
@dataclass(frozen=True)
class SpreadPlace(PlacePolicy):
    """Spread the tasks of a gang over as many nodes as possible, the emptiest nodes and cards first."""

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        held = np.zeros(len(trial.space.node_up), dtype=np.int64)  # tasks of this gang on each node
        for group in trial.groups:
            placed = _shares(group, trial, held) if group.request.share else _whole(group, trial, held)
            if not placed:
                return trial.refuse(group)
        return trial.done()


def _whole(group: TaskGroup, trial: Trial, held: np.ndarray) -> bool:
    """One task per node and round, nodes without tasks of the gang first."""
    space = trial.space
    nodes = np.flatnonzero(space.room(group.request))
    order = np.lexsort((-space.node_cpu_free[nodes], -space.node_idle[nodes], held[nodes]))
    tasks = fill_counted(group, trial, nodes[order], per_node=1)
    if tasks is None:
        return False
    held += tasks
    return True


def _shares(group: TaskGroup, trial: Trial, held: np.ndarray) -> bool:
    space = trial.space
    card_node = space.fixed.card_node

    def choose(cards: np.ndarray) -> int:
        card = least(cards, held[card_node], -space.card_slots_free, -space.card_sm_free, -space.card_memory_free)
        held[card_node[card]] += 1
        return card

    return put_shares(group, trial, choose)
