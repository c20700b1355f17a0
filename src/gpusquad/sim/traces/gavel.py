"""Traces of Gavel and Shockwave: training jobs as a number of steps of a known model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.registry import register
from gpusquad.sim.colocation import load_throughputs
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
    to_us,
)

_NEEDED = ("trace", "job_type", "scale_factor", "total_steps", "arrival_time_s")
_BESIDE = ("simulation_throughputs.json.gz", "simulation_throughputs.json")
RunTime = Callable[[dict[str, str], int], int]


@register("reader", "gavel")
@dataclass(frozen=True)
class Gavel:
    """Gavel and Shockwave CSV; run time from steps and measured steps per second, or from duration_s."""

    throughputs: str = ""
    """File with steps per second. Empty: duration_s where the trace has it, else simulation_throughputs.json beside
    the trace."""
    gpu: str = "v100"
    """Which GPU's steps per second."""
    trace: str = ""
    """Only traces of the file whose name contains this. Empty: all of them at once."""
    node_gpus: int = 8
    """Gangs above this size are split into tasks of at most this many GPUs."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_NEEDED)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        rows = table(lines, *_NEEDED)
        first = next(rows, None)
        if first is None:
            return
        run_time = self._run_time("duration_s" in first, lines)
        gang = Gangs(self.node_gpus)
        counts: Counter[str] = Counter()

        def make(row: dict[str, str]) -> TraceJob | None:
            name = row["trace"]
            if self.trace not in name:
                return None
            counts[name] += 1
            gpus = cell_int(row, "scale_factor", low=1)
            job = Job(
                id=f"{name}#{counts[name]}",
                roles=gang(gpus),
                submitted_us=cell_us(row, "arrival_time_s"),
                app=row["job_type"],
            )
            return TraceJob(job, run_time(row, gpus), workload=row["job_type"])

        yield from each(lines, chain([first], rows), make)

    def _run_time(self, has_duration: bool, lines: Lines) -> RunTime:
        if not self.throughputs and has_duration:
            return lambda row, gpus: cell_run_us(row, "duration_s")
        speeds = _Speeds(load_throughputs(self._file(lines), self.gpu).alone)

        def from_steps(row: dict[str, str], gpus: int) -> int:
            steps_per_s = speeds.of(row["job_type"], gpus)
            return max(1, to_us(cell_float(row, "total_steps") / steps_per_s * US_PER_S, "total_steps"))

        return from_steps

    def _file(self, lines: Lines) -> Path:
        if self.throughputs:
            return Path(self.throughputs)
        for name in _BESIDE:
            if (file := lines.folder() / name).is_file():
                return file
        cure = "give measured steps per second: format gavel:throughputs=simulation_throughputs.json.gz"
        raise Invalid(lines.name, "has steps and no run times", cure)


class _Speeds:
    """Steps per second by model and number of GPUs."""

    def __init__(self, alone: dict[tuple[str, int], float]) -> None:
        self._alone = alone
        self._found: dict[tuple[str, int], float] = {}

    def of(self, job_type: str, gpus: int) -> float:
        key = (job_type, gpus)
        if key not in self._found:
            self._found[key] = self._find(job_type, gpus)
        return self._found[key]

    def _find(self, job_type: str, gpus: int) -> float:
        """As measured. For more GPUs than were measured, the value of the largest measured number: no speed-up is
        assumed.
        """
        known = [scale for name, scale in self._alone if name == job_type and scale <= gpus]
        speed = self._alone[job_type, max(known)] if known else 0.0
        if speed <= 0:
            raise Invalid("job_type", f"no steps per second are known for {job_type!r}")
        return speed
