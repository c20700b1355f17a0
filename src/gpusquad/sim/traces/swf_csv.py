"""SWF logs as a table with the waits of a reference implementation beside each job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusquad.model.job import Job
from gpusquad.registry import register
from gpusquad.sim.traces._base import Lines, TraceJob, cell_int, cell_run_us, cell_us, each, has_columns, table
from gpusquad.sim.traces.swf import Processors, estimate

_NEEDED = ("job_id", "submit_s", "run_s", "procs", "req_time_s")


@register("reader", "swf-csv")
@dataclass(frozen=True)
class SwfTable:
    """SWF jobs as CSV (job_id, submit_s, run_s, procs, req_time_s, user); further columns are not read."""

    raise_estimates: bool = False
    """Lift estimates that are below the run time up to it."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_NEEDED)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        gang = Processors()

        def make(row: dict[str, str]) -> TraceJob:
            run_us = cell_run_us(row, "run_s")
            asked_us = cell_us(row, "req_time_s") if row["req_time_s"] not in ("", "-1") else 0
            job = Job(
                id=row["job_id"],
                roles=gang(cell_int(row, "procs", low=1)),
                submitted_us=cell_us(row, "submit_s"),
                user=row.get("user", ""),
                estimate_us=estimate(asked_us, run_us, self.raise_estimates),
            )
            return TraceJob(job, run_us)

        return each(lines, table(lines, *_NEEDED), make)
