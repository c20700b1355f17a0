"""How fast jobs run beside each other on one card: functions that the simulated engine asks."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.model.job import Job
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.sim.colocation import PairTable
from gpusquad.sim.engine import Rate
from gpusquad.sim.traces import TraceJob


def by_profile(own: TraceJob, others: Sequence[TraceJob]) -> float:
    """Time is divided where the expected utilisations sum to more than the card, and nobody is slowed before that."""
    busy = utilisation(own.job) + sum(utilisation(other.job) for other in others)
    return min(1.0, 1.0 / busy) if busy > 0 else 1.0


def by_pairs(table: PairTable) -> Rate:
    """As measured in pairs; among several, the product over the neighbours."""

    def rate(own: TraceJob, others: Sequence[TraceJob]) -> float:
        return table.rate(own.workload, [other.workload for other in others])

    return rate


def utilisation(job: Job) -> float:
    """What the profile expects; without one, the part of the SMs that was asked for."""
    if job.profile is not None:
        return job.profile.utilisation_ratio
    return max((r.request.share.sm_milli / WHOLE_MILLI for r in job.roles if r.request.share is not None), default=1.0)
