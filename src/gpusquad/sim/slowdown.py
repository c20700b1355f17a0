"""How fast jobs run beside each other on one card: functions that the simulated engine asks, and the core.

A snapshot holds no functions, so what they stand on is saved beside it and read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.units import WHOLE_MILLI, number
from gpusquad.sim.colocation import PairTable
from gpusquad.sim.traces import TraceJob

_FIELDS = ("by", "default_ratio", "workloads", "ratios")
_NOBODY: Mapping[str, str] = {}


def by_profile(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
    """Time is divided where the expected utilisations sum to more than the card, and nobody is slowed before that."""
    busy = utilisation(own) + sum(utilisation(other) for other in others)
    return min(1.0, 1.0 / busy) if busy > 0 else 1.0


def by_pairs(table: PairTable, workloads: Mapping[str, str] = _NOBODY) -> Rate:
    """As measured in pairs; among several, the product over the neighbours. ``workloads`` says by id what a job runs,
    where its application label does not."""

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        names = [workloads.get(other.id, other.app) for other in others]
        return table.rate(workloads.get(own.id, own.app), names)

    return rate


def by_workload(traces: Iterable[TraceJob]) -> list[TraceJob]:
    """The same jobs labelled with what they ran, where the trace tells: tables go by it, and so do places."""
    return [
        replace(trace, job=replace(trace.job, app=trace.workload))
        if trace.workload and trace.workload != trace.job.app
        else trace
        for trace in traces
    ]


def utilisation(job: Job) -> float:
    """What the profile expects; without one, the part of the SMs that was asked for."""
    if job.profile is not None:
        return job.profile.utilisation_ratio
    return max((r.request.share.sm_milli / WHOLE_MILLI for r in job.roles if r.request.share is not None), default=1.0)


def save_slowdown(table: PairTable | None, jobs: Iterable[Job]) -> dict:
    """Plain data: the pairs that these jobs can form, or that profiles tell."""
    if table is None:
        return {"by": "profile"}
    workloads = {job.id: job.app for job in jobs}
    among = set(workloads.values())
    ratios = [[own, other, ratio] for (own, other), ratio in table.ratios.items() if own in among and other in among]
    return {"by": "pairs", "default_ratio": table.default_ratio, "workloads": workloads, "ratios": ratios}


def load_slowdown(data: object, where: str) -> Rate:
    """What ``save_slowdown`` wrote, as a function of jobs."""
    fields = Fields(data, where, _FIELDS)
    if fields.choice("by", "profile", ("profile", "pairs")) == "profile":
        return by_profile
    workloads, rows = fields.raw("workloads"), fields.raw("ratios")
    if not isinstance(workloads, dict) or not isinstance(rows, list):
        raise Invalid(fields.at("ratios"), "cannot be read", "expected workloads by job and a list of pairs")
    default_ratio = number(fields.raw("default_ratio"), fields.at("default_ratio"), high=1.0)
    table = PairTable(
        dict(_pair(row, f"{fields.at('ratios')}[{index}]") for index, row in enumerate(rows)), default_ratio
    )
    return by_pairs(table, workloads)


def _pair(row: object, where: str) -> tuple[tuple[str, str], float]:
    if not (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[1], str)):
        raise Invalid(where, "is not [own, other, ratio]")
    return (row[0], row[1]), number(row[2], where)
