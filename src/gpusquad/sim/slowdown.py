"""Speed of jobs that share a card: functions for the simulated engine and the core.

A snapshot cannot contain functions, so their data is saved with it and read back.
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
_NO_WORKLOADS: Mapping[str, str] = {}


def by_profile(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
    """Jobs are slowed only if their expected utilisations sum to more than one card; then time is divided."""
    busy = utilisation(own) + sum(utilisation(other) for other in others)
    return min(1.0, 1.0 / busy) if busy > 0 else 1.0


def by_pairs(table: PairTable, workloads: Mapping[str, str] = _NO_WORKLOADS) -> Rate:
    """Rates from measured pairs; among several neighbours, their product. ``workloads`` maps a job id to what the job
    runs, where its application label does not say.
    """

    def rate(own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        names = [workloads.get(other.id, other.app) for other in others]
        return table.rate(workloads.get(own.id, own.app), names)

    return rate


def by_workload(traces: Iterable[TraceJob]) -> list[TraceJob]:
    """The same jobs labelled with what they ran, if the trace says it. Tables and place policies use the label."""
    return [
        replace(trace, job=replace(trace.job, app=trace.workload))
        if trace.workload and trace.workload != trace.job.app
        else trace
        for trace in traces
    ]


def utilisation(job: Job) -> float:
    """The profile's utilisation; without a profile, the requested fraction of the SMs."""
    if job.profile is not None:
        return job.profile.utilisation_ratio
    return max((r.request.share.sm_milli / WHOLE_MILLI for r in job.roles if r.request.share is not None), default=1.0)


def save_slowdown(table: PairTable | None, jobs: Iterable[Job]) -> dict:
    """Plain data: the pairs that these jobs can form, or a marker for profiles."""
    if table is None:
        return {"by": "profile"}
    workloads = {job.id: job.app for job in jobs}
    among = set(workloads.values())
    ratios = [[own, other, ratio] for (own, other), ratio in table.ratios.items() if own in among and other in among]
    return {"by": "pairs", "default_ratio": table.default_ratio, "workloads": workloads, "ratios": ratios}


def load_slowdown(data: object, where: str) -> Rate:
    """The function that ``save_slowdown`` saved."""
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
