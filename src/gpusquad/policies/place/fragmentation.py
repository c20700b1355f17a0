"""Fragmentation: keep free GPUs usable for typical requests."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import ClusterArraysView, Refusal, TaskGroup, Trial
from gpusquad.policies._bounds import check
from gpusquad.policies.place._fragments import Fragments
from gpusquad.policies.place._tasks import least, put_share, put_task
from gpusquad.registry import register

_MAX_CACHED = 4
"""Maximum number of cached demands (and values of mix) per cluster."""
_known: WeakKeyDictionary[ClusterArraysView, dict[tuple, Fragments]] = WeakKeyDictionary()


@register("place", "fragmentation")
@dataclass(frozen=True)
class Fragmentation(PlacePolicy):
    """Place each task where it adds the least expected fragmentation: free GPU that typical requests cannot use."""

    mix: float = 2.0
    """Factor by which CPU and memory last longer than with one kind of task, since neighbours often need less of
    them."""

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
        """Cached results for this cluster and demand."""
        kept = _known.setdefault(trial.space.fixed, {})
        key = (self.mix, tuple(trial.demand))
        if key not in kept:
            if len(kept) >= _MAX_CACHED:
                del kept[next(iter(kept))]
            kept[key] = Fragments(trial.space, trial.demand, self.mix)
        return kept[key]


def _one(group: TaskGroup, trial: Trial, fragments: Fragments) -> bool:
    """Place one task on the node with the least added fragmentation. Ties: the fullest, to keep empty nodes empty."""
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
