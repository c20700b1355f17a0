"""Traces of Muri: Philly jobs, each with a model and the times of its stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusquad.model.job import Job, Profile
from gpusquad.registry import register
from gpusquad.sim.traces._base import (
    Gangs,
    Lines,
    TraceJob,
    cell_float,
    cell_int,
    cell_run_us,
    cell_us,
    each,
    has_columns,
    table,
)

_NEEDED = ("job_id", "num_gpu", "submit_time", "duration", "model_name", "iteration_time", "resource_time_1")
_US_PER_MS = 1000


@register("reader", "muri")
@dataclass(frozen=True)
class Muri:
    """Muri CSV; times in milliseconds, utilisation from the GPU stage of an iteration."""

    node_gpus: int = 8
    """Gangs above this size are split into tasks of at most this many GPUs."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_NEEDED)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        gang = Gangs(self.node_gpus)

        def make(row: dict[str, str]) -> TraceJob:
            job = Job(
                id=row["job_id"],
                roles=gang(cell_int(row, "num_gpu")),
                submitted_us=cell_us(row, "submit_time", _US_PER_MS),
                app=row["model_name"],
                profile=_profile(row),
            )
            return TraceJob(job, cell_run_us(row, "duration", _US_PER_MS), workload=row["model_name"])

        return each(lines, table(lines, *_NEEDED), make)


def _profile(row: dict[str, str]) -> Profile | None:
    """The second stage is the GPU's: language models spend their time in it and games do not."""
    iteration_ms = cell_float(row, "iteration_time")
    if iteration_ms <= 0:
        return None
    busy = min(1.0, cell_float(row, "resource_time_1") / iteration_ms)
    return Profile(utilisation_ratio=busy, source="measured")
