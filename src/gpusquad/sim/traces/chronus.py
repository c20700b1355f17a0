"""Traces of Chronus: Philly jobs with deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusquad.model.job import Job, Slo
from gpusquad.registry import register
from gpusquad.sim.traces._base import Gangs, Lines, TraceJob, cell_int, cell_run_us, cell_us, each, has_columns, table

_NEEDED = ("job_id", "user", "num_gpu", "submit_time", "model_name", "duration", "expect_time_list", "best_effort")


@register("reader", "chronus")
@dataclass(frozen=True)
class Chronus:
    """Chronus CSV; the first expected time is the deadline, best-effort jobs have none."""

    node_gpus: int = 8
    """Gangs above this size are split into tasks of at most this many GPUs."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_NEEDED)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        gang = Gangs(self.node_gpus)

        def make(row: dict[str, str]) -> TraceJob:
            submitted_us = cell_us(row, "submit_time")
            job = Job(
                id=row["job_id"],
                roles=gang(cell_int(row, "num_gpu")),
                submitted_us=submitted_us,
                tenant=row["user"] or "default",
                app=row["model_name"],
                slo=_slo(row, submitted_us),
            )
            return TraceJob(job, cell_run_us(row, "duration"), workload=row["model_name"])

        return each(lines, table(lines, *_NEEDED), make)


def _slo(row: dict[str, str], submitted_us: int) -> Slo | None:
    """A soft deadline has several times with falling value. The first is the one with full value."""
    if cell_int(row, "best_effort"):
        return None
    first = {"expect_time_list": row["expect_time_list"].split("-")[0]}
    return Slo(deadline_us=submitted_us + cell_us(first, "expect_time_list"))
