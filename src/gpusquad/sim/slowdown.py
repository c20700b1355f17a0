"""How fast jobs run beside each other on one card: functions that the simulated engine asks, and the core through it.

A snapshot holds no functions, so what they stand on is saved beside it and read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpusquad.core.slowdown import Rate as JobRate
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields
from gpusquad.model.job import Job
from gpusquad.model.units import WHOLE_MILLI, number
from gpusquad.sim.colocation import PairTable
from gpusquad.sim.engine import Rate
from gpusquad.sim.traces import TraceJob

_FIELDS = ("by", "default_ratio", "workloads", "ratios")


def by_profile(own: TraceJob, others: Sequence[TraceJob]) -> float:
    """Time is divided where the expected utilisations sum to more than the card, and nobody is slowed before that."""
    return profile_rate(own.job, [other.job for other in others])


def by_pairs(table: PairTable) -> Rate:
    """As measured in pairs; among several, the product over the neighbours."""

    def rate(own: TraceJob, others: Sequence[TraceJob]) -> float:
        return table.rate(own.workload, [other.workload for other in others])

    return rate


def profile_rate(own: Job, others: Sequence[Job]) -> float:
    busy = utilisation(own) + sum(utilisation(other) for other in others)
    return min(1.0, 1.0 / busy) if busy > 0 else 1.0


def utilisation(job: Job) -> float:
    """What the profile expects; without one, the part of the SMs that was asked for."""
    if job.profile is not None:
        return job.profile.utilisation_ratio
    return max((r.request.share.sm_milli / WHOLE_MILLI for r in job.roles if r.request.share is not None), default=1.0)


def save_slowdown(table: PairTable | None, traces: Iterable[TraceJob]) -> dict:
    """Plain data: the pairs that these jobs can form, or that profiles tell."""
    if table is None:
        return {"by": "profile"}
    workloads = {trace.job.id: trace.workload for trace in traces}
    among = set(workloads.values())
    ratios = [[own, other, ratio] for (own, other), ratio in table.ratios.items() if own in among and other in among]
    return {"by": "pairs", "default_ratio": table.default_ratio, "workloads": workloads, "ratios": ratios}


def load_slowdown(data: object, where: str) -> JobRate:
    """What ``save_slowdown`` wrote, as a function of jobs."""
    fields = Fields(data, where, _FIELDS)
    if fields.choice("by", "profile", ("profile", "pairs")) == "profile":
        return profile_rate
    workloads, rows = fields.raw("workloads"), fields.raw("ratios")
    if not isinstance(workloads, dict) or not isinstance(rows, list):
        raise Invalid(fields.at("ratios"), "cannot be read", "expected workloads by job and a list of pairs")
    default_ratio = number(fields.raw("default_ratio"), fields.at("default_ratio"), high=1.0)
    table = PairTable(
        dict(_pair(row, f"{fields.at('ratios')}[{index}]") for index, row in enumerate(rows)), default_ratio
    )

    def rate(own: Job, others: Sequence[Job]) -> float:
        return table.rate(workloads.get(own.id, ""), [workloads.get(other.id, "") for other in others])

    return rate


def _pair(row: object, where: str) -> tuple[tuple[str, str], float]:
    if not (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[1], str)):
        raise Invalid(where, "is not [own, other, ratio]")
    return (row[0], row[1]), number(row[2], where)
