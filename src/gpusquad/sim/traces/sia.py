"""Workloads of Sia and Pollux: submissions of models with their number of GPUs and batch size.

The files contain no run times. They are computed from the authors' measured tables beside them: steps until the model
is trained at that batch size, times the seconds per step on that many GPUs. The result is the run time of a rigid job
with a fixed batch size, not of the adaptive jobs in those papers.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.registry import register
from gpusquad.sim.traces._base import (
    Lines,
    TraceJob,
    cell_float,
    cell_int,
    cell_us,
    each,
    has_columns,
    open_text,
    table,
    to_us,
)
from gpusquad.sim.traces.swf import Processors

_NEEDED = ("set", "workload", "name", "time", "application", "num_replicas", "batch_size")
_STEPS = "sia_profile_validation.csv"
_TIMES = "sia_profile_placements.csv"
_LARGE = "sia_profile_scalability.csv"
_MEASURED = ("application", "gpu_type", "local_bsz", "step_time", "sync_time")
Rank = tuple[int, int]
"""Number of nodes, then GPUs on the fullest node, negated: the smallest key is the most compact placement."""
Step = tuple[int, float, float]
"""Batch size per GPU, seconds per step, seconds of it spent synchronising."""


@register("reader", "sia")
@dataclass(frozen=True)
class Sia:
    """Sia and Pollux workloads; a replica is a one-GPU task, run times come from the authors' measured tables."""

    profiles: str = ""
    """Folder with the sia_profile tables. Empty: that of the workload file."""
    gpu: str = "aws"
    """Which measured machine: aws (4 x T4), azure (8 x V100), dgx, dgx-ext (8 x A100), rtx (8 x 2080Ti)."""
    workload: str = ""
    """Only workloads whose ``set/name`` contains this, for example philly/workload-3. Empty: all of them at once."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return has_columns(first_lines, *_NEEDED)

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        times = _Times(Path(self.profiles) if self.profiles else lines.folder(), self.gpu)
        gang = Processors()
        seen: Counter[str] = Counter()

        def make(row: dict[str, str]) -> TraceJob | None:
            workload = f"{row['set']}/{row['workload']}"
            if self.workload not in workload:
                return None
            name = f"{workload}/{row['name']}"
            seen[name] += 1
            application, replicas = row["application"], cell_int(row, "num_replicas", low=1)
            job = Job(
                id=name if seen[name] == 1 else f"{name}#{seen[name]}",
                roles=gang(replicas),
                submitted_us=cell_us(row, "time"),
                app=application,
            )
            return TraceJob(job, times.run_us(application, replicas, cell_int(row, "batch_size", low=1)), "succeeded",
                            application)  # fmt: skip

        yield from each(lines, table(lines, *_NEEDED), make)


class _Times:
    """Run times computed from the authors' measurements."""

    def __init__(self, folder: Path, gpu: str) -> None:
        self._steps = _training_steps(_file(folder, _STEPS))
        self._measured = _step_times(folder, gpu)
        self._known: dict[tuple[str, int, int], int] = {}
        if not self._measured:
            raise Invalid("reader.sia.gpu", f"nothing was measured on {gpu!r}", "use aws, azure, dgx, dgx-ext or rtx")

    def run_us(self, application: str, replicas: int, batch: int) -> int:
        key = (application, replicas, batch)
        if key not in self._known:
            steps = self._steps.get((application, batch))
            if steps is None:
                raise Invalid("batch_size", f"how many steps {application} needs with {batch} was not measured")
            self._known[key] = max(1, to_us(steps * self._step_s(*key) * US_PER_S, "run time"))
        return self._known[key]

    def _step_s(self, application: str, replicas: int, batch: int) -> float:
        measured = self._measured.get((application, replicas))
        if measured is None:
            raise Invalid("num_replicas", f"{application} was not measured on {replicas} GPUs")
        local = math.ceil(batch / replicas)
        # A batch that is too large for the card is accumulated over several passes and synchronised after the last.
        passes = math.ceil(local / measured[-1][0])
        step_s, sync_s = _between(measured, math.ceil(local / passes))
        return (passes - 1) * (step_s - sync_s) + step_s


def _between(measured: list[Step], local: int) -> tuple[float, float]:
    """Linear interpolation between measured batch sizes."""
    at = bisect_left(measured, (local, 0.0, 0.0))
    if at == 0 or measured[min(at, len(measured) - 1)][0] == local:
        return measured[at][1:]
    (low, *below), (high, *above) = measured[at - 1], measured[at]
    part = (local - low) / (high - low)
    step_s, sync_s = (a + part * (b - a) for a, b in zip(below, above, strict=True))
    return step_s, sync_s


def _training_steps(path: Path) -> dict[tuple[str, int], int]:
    """Steps until trained, by application and batch size: the end of its record."""
    result: dict[tuple[str, int], int] = {}
    for row in _table(path, "application", "batch_size", "iteration"):
        key = (row["application"], cell_int(row, "batch_size"))
        result[key] = max(result.get(key, 0), cell_int(row, "iteration"))
    return result


def _step_times(folder: Path, gpu: str) -> dict[tuple[str, int], list[Step]]:
    """By application and number of GPUs, on the fewest and fullest nodes measured, by ascending batch size."""
    best: dict[tuple[str, int], tuple[Rank, list[Step]]] = {}
    for row, replicas, rank in chain(_small(folder), _large(folder)):
        if row["gpu_type"] != gpu:
            continue
        key = (row["application"], replicas)
        if key not in best or rank < best[key][0]:
            best[key] = (rank, [])
        if rank == best[key][0]:
            step = (cell_int(row, "local_bsz", low=1), cell_float(row, "step_time"), cell_float(row, "sync_time"))
            best[key][1].append(step)
    return {key: _one_a_size(steps) for key, (_, steps) in best.items()}


def _small(folder: Path) -> Iterator[tuple[dict[str, str], int, Rank]]:
    """Up to 16 GPUs: one digit per node."""
    for row in _table(_file(folder, _TIMES), "placement", *_MEASURED):
        sizes = [int(digit) for digit in row["placement"]]
        yield row, sum(sizes), (len(sizes), -max(sizes))


def _large(folder: Path) -> Iterator[tuple[dict[str, str], int, Rank]]:
    """More GPUs, spread evenly over the nodes."""
    for row in _table(_file(folder, _LARGE), "num_nodes", "num_replicas", *_MEASURED):
        yield row, cell_int(row, "num_replicas"), (cell_int(row, "num_nodes"), 0)


def _one_a_size(steps: list[Step]) -> list[Step]:
    """Equal placements written in different orders give several values per batch size. Any of them will do; take the
    first.
    """
    return sorted({step[0]: step for step in reversed(steps)}.values())


def _table(path: Path, *columns: str) -> Iterator[dict[str, str]]:
    with open_text(path) as file:
        yield from table(Lines((line.rstrip("\n") for line in file), path.name, path), *columns)


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.gz", folder / name):
        if path.is_file():
            return path
    cure = "name the folder that has it: format sia:profiles=FOLDER"
    raise Invalid("trace", f"workloads have no run times, and {name} to work them out is not in {folder}", cure)
