"""Fragmentation: keep free GPU usable for what is usually asked for."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.views import ClusterArraysView, Refusal, TaskGroup, Trial
from gpusquad.policies._bounds import check
from gpusquad.policies.place._fragments import Fragments
from gpusquad.policies.place._tasks import least, put_share, put_task
from gpusquad.registry import register

_KEPT = 4
"""Demands (and values of mix) remembered at a time for one cluster."""
_known: WeakKeyDictionary[ClusterArraysView, dict[tuple, Fragments]] = WeakKeyDictionary()


@register("place", "fragmentation")
@dataclass(frozen=True)
class Fragmentation:
    """Each task where it adds the least expected fragmentation: free GPU that usual demand cannot use."""

    mix: float = 2.0
    """How much further CPU and memory go than if only one kind of task came; neighbours often need less of them."""

    def __post_init__(self) -> None:
        check(self, "place.fragmentation", mix=(0, 1000))

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        fragments = self._fragments(trial)
        fragments.look(trial.space)
        for group in trial.groups:
            for _ in range(group.count):
                if not _one(group, trial, fragments):
                    return trial.refuse(group)
        return trial.done()

    def _fragments(self, trial: Trial) -> Fragments:
        """What was worked out before for this cluster and demand."""
        kept = _known.setdefault(trial.space.fixed, {})
        key = (self.mix, tuple(trial.demand))
        if key not in kept:
            if len(kept) >= _KEPT:
                del kept[next(iter(kept))]
            kept[key] = Fragments(trial.space, trial.demand, self.mix)
        return kept[key]


def _one(group: TaskGroup, trial: Trial, fragments: Fragments) -> bool:
    """The node that adds least; among equals the fullest, so that empty nodes stay empty."""
    space = trial.space
    nodes = np.flatnonzero(space.room(group.request))
    if not len(nodes):
        return False
    costs = fragments.costs(space, group.request)
    node = least(nodes, costs.added, fragments.left, space.node_cpu_free)
    if group.request.share is None:
        put_task(group, trial, node)
    else:
        put_share(group, trial, int(costs.card[node]))
    fragments.touch(space, np.array([node]))
    return True
