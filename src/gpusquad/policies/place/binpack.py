"""Binpack: fill the fullest nodes and cards first, to keep large gaps free."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import Refusal, TaskGroup, Trial
from gpusquad.policies.place._tasks import least, put_shares
from gpusquad.registry import register


@register("place", "binpack")
@dataclass(frozen=True)
class Binpack(PlacePolicy):
    """Largest GPU memory first, on the feasible card with the least free memory."""

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        for group in trial.groups:
            placed = _shares(group, trial) if group.request.share else fill_fullest_nodes(group, trial)
            if not placed:
                return trial.refuse(group)
        return trial.done()

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Order of jobs that arrive together: largest GPU memory first."""
        return sorted(jobs, key=lambda job: -max(_demand_bytes(r.request.share) for r in job.roles))


def _demand_bytes(share) -> int:
    return share.memory_on(1 << 50) if share else 1 << 60


def fill_fullest_nodes(group: TaskGroup, trial: Trial) -> bool:
    """Nodes with the fewest idle cards (CPU-only tasks: the least free CPU) first."""
    space = trial.space
    nodes = space.room(group.request).nonzero()[0]
    free = space.node_idle[nodes]
    if group.request.gpus == 0:
        free = free * (1 << 40) + space.node_cpu_free[nodes]
    if group.count == 1 and len(nodes):
        return trial.fill(group, nodes[[int(free.argmin())]])
    if len(nodes) >= group.count and free.min() == free.max():
        return trial.fill(group, nodes[: group.count])  # each has room for a task
    return trial.fill(group, nodes[free.argsort(kind="stable")[: group.count]])


def _shares(group: TaskGroup, trial: Trial) -> bool:
    """Place each task on the card with the least free memory that has room and CPU for it."""
    space = trial.space
    return put_shares(group, trial, lambda cards: least(cards, space.card_memory_free))
