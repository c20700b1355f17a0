"""Fill a cluster until it is full: how much GPU a place policy can allocate before fragmentation stops it.

Tasks arrive one by one and never leave. Each is placed on arrival, or dropped if it does not fit: no look-ahead, no
reordering, no migration. The measure is the fraction of the capacity allocated at the end.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.capacity.space import Space
from gpusquad.core.capacity.trial import SpaceTrial
from gpusquad.model.cluster import Cluster
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Placement
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.views import Refusal

Demand = Sequence[tuple[Request, float]]


class FillSetup(Protocol):
    """What is measured."""

    def propose(self, job: Job, trial: SpaceTrial) -> Placement | Refusal: ...


@dataclass(frozen=True, slots=True)
class FillResult:
    """How full it got."""

    allocated_milli: int
    capacity_milli: int
    refused: int
    curve: tuple[tuple[float, float], ...]
    """GPU requested so far and GPU allocated so far, both as fractions of capacity, at every hundredth requested."""

    @property
    def allocation_ratio(self) -> float:
        return self.allocated_milli / self.capacity_milli if self.capacity_milli else 0.0


def fill(cluster: Cluster, jobs: Iterable[Job], place: FillSetup, demand: Demand = ()) -> FillResult:
    """Place jobs in order of arrival. ``demand`` is the usual demand, which the place policy is given."""
    space = Space(ClusterArrays(cluster))
    demand = tuple(demand)
    capacity = cluster.gpus * WHOLE_MILLI
    arrived = allocated = refused = 0
    curve: list[tuple[float, float]] = []
    for job in jobs:
        outcome = place.propose(job, SpaceTrial(space, job, demand))
        arrived += job.gpu_milli
        if isinstance(outcome, Refusal):
            refused += 1
        else:
            allocated += job.gpu_milli
        if arrived * 100 >= capacity * (len(curve) + 1):
            curve.append((arrived / capacity, allocated / capacity))
    return FillResult(allocated, capacity, refused, tuple(curve))


def draw(jobs: Sequence[Job], capacity_milli: int, seed: int, ratio: float = 1.3) -> list[Job]:
    """Jobs drawn with replacement until the next would request more than ``ratio`` of capacity in all."""
    if not any(job.gpu_milli for job in jobs):
        raise ValueError("none of the jobs asks for GPU, so no draw would ever end")
    dice = random.Random(seed)
    drawn: list[Job] = []
    asked = 0
    while True:
        job = dice.choice(jobs)
        asked += job.gpu_milli
        if asked > ratio * capacity_milli:
            return drawn
        drawn.append(replace(job, id=f"{job.id}~{len(drawn)}"))


def demand_of(jobs: Iterable[Job]) -> Demand:
    """Frequency of each shape, most frequent first."""
    counts: Counter[Request] = Counter()
    for job in jobs:
        for request, count in job.groups:
            counts[request] += count
    total = counts.total()
    return [(request, count / total) for request, count in counts.most_common()]
