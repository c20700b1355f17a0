"""Microsoft's Philly trace in its small form: one row per job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.registry import register
from gpusquad.sim.traces._base import Gangs, Lines, TraceJob, cell_int, cell_run_us, has_columns, table

_NEEDED = ("timestamp", "duration", "num_gpus", "cluster")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@register("reader", "philly")
@dataclass(frozen=True)
class Philly:
    """Philly CSV (timestamp, duration, num_gpus, cluster); the virtual cluster is the tenant."""

    node_gpus: int = 8
    """Gangs above this size are split into tasks of at most this many GPUs."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_NEEDED)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        # The file is not ordered by time, and times count from the first submission, so all rows are read before jobs
        # are made.
        gang = Gangs(self.node_gpus)
        rows: list[tuple[int, int, int, int, str]] = []
        for row in table(lines, *_NEEDED):
            try:
                gpus = cell_int(row, "num_gpus", low=1)
                rows.append((lines.number, _instant_us(row), cell_run_us(row, "duration"), gpus, row["cluster"]))
            except Invalid as error:
                lines.bad(f"{error.field}: {error.problem}", error.cure)
        zero_us = min((row[1] for row in rows), default=0)
        for number, at_us, run_us, gpus, tenant in rows:
            # Line number without the header; the file has no ids.
            yield TraceJob(Job(str(number - 1), gang(gpus), at_us - zero_us, tenant=tenant or "default"), run_us)


def _instant_us(row: dict[str, str]) -> int:
    text = row["timestamp"]
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid("timestamp", f"{text[:40]!r} is not a date and time", "write 2017-10-09 07:01:55") from None
    since = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
