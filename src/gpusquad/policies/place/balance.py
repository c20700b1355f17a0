"""Balance: equal utilisation of all cards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import Refusal, TaskGroup, Trial
from gpusquad.policies.place._tasks import least, node_sum, put_shares, utilisation
from gpusquad.registry import register


@register("place", "balance")
@dataclass(frozen=True)
class Balance(PlacePolicy):
    """Highest profiled utilisation first, on the card with the lowest total utilisation."""

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        for group in trial.groups:
            placed = _shares(group, trial) if group.request.share else _whole(group, trial)
            if not placed:
                return trial.refuse(group)
        return trial.done()

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Order of jobs that arrive together: highest utilisation first."""
        return sorted(jobs, key=lambda job: -utilisation(job))


def _shares(group: TaskGroup, trial: Trial) -> bool:
    """Jobs without a profile add no load, so free SMs and memory break the tie."""
    space = trial.space
    return put_shares(
        group, trial, lambda cards: least(cards, space.card_load, -space.card_sm_free, -space.card_memory_free)
    )


def _whole(group: TaskGroup, trial: Trial) -> bool:
    """One task per node and round, nodes with the most idle cards and the least load first (CPU-only: most free
    CPU)."""
    space = trial.space
    nodes = np.flatnonzero(space.room(group.request))
    if group.request.gpus:
        order = np.lexsort((node_sum(space, space.card_load)[nodes], -space.node_idle[nodes]))
    else:
        order = np.argsort(-space.node_cpu_free[nodes], kind="stable")
    return trial.fill(group, nodes[order], per_node=1)
