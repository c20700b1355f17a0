"""Best fit over all resources of a node at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.views import Refusal, SpaceView, TaskGroup, Trial
from gpusquad.policies._bounds import check
from gpusquad.policies.place._tasks import cards_with_room, least, node_sum, put_share, put_task
from gpusquad.registry import register


@register("place", "bestfit")
@dataclass(frozen=True)
class BestFit(PlacePolicy):
    """The node with the least free CPU and GPU (weighted), and on it the fullest card with room."""

    cpu_weight: float = 0.5
    gpu_weight: float = 0.5

    def __post_init__(self) -> None:
        check(self, "place.bestfit", cpu_weight=(0, 1000), gpu_weight=(0, 1000))

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        for group in trial.groups:
            for _ in range(group.count):
                if not self._one(group, trial):
                    return trial.refuse(group)
        return trial.done()

    def _one(self, group: TaskGroup, trial: Trial) -> bool:
        space = trial.space
        nodes = np.flatnonzero(space.room(group.request))
        if not len(nodes):
            return False
        # The task uses the same everywhere, so sorting by free capacity equals sorting by the rest.
        node = int(nodes[np.argmin(self._free(space)[nodes])])
        if group.request.share is None:
            put_task(group, trial, node)
        else:
            cards = cards_with_room(space, group.request)
            cards = cards[space.fixed.card_node[cards] == node]
            put_share(group, trial, least(cards, space.card_sm_free, space.card_memory_free))
        return True

    def _free(self, space: SpaceView) -> np.ndarray:
        """Free capacity of each node relative to the largest node, so that a small node counts as nearly full."""
        fixed = space.fixed
        gpu = node_sum(space, space.card_sm_free) / (WHOLE_MILLI * max(int(fixed.node_cards.max(initial=0)), 1))
        cpu = space.node_cpu_free / max(int(fixed.node_cpu.max(initial=0)), 1)
        return self.cpu_weight * cpu + self.gpu_weight * gpu
