"""Logs of parallel machines to measure predictions on: the three with the waits of reference schedulers beside every
job, and others that are named in ``GPUSQUAD_LOGS`` (``path:processors,…``).

``GPUSQUAD_JOBS=3000`` takes the first 3,000 jobs of each, to try things; figures published for whole logs are then
no bars.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.backfill import PROCESSORS
from bench.data import data_path
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.units import US_PER_S
from gpusquad.sim.traces import TraceJob, read

Floats = NDArray[np.float64]

REFERENCES = ("easy", "easypp_tsafrir", "easypp_ml", "easypp_clairvoyant")


@dataclass(frozen=True)
class Log:
    """Jobs by submission, and how long each waited under which reference scheduler."""

    name: str
    processors: int
    jobs: list[TraceJob]
    wait_s: dict[str, Floats]

    @property
    def cluster(self) -> Cluster:
        return grid(f"{self.processors}x1")

    @property
    def run_s(self) -> Floats:
        return np.array([trace.run_us for trace in self.jobs]) / US_PER_S

    @property
    def submitted_s(self) -> Floats:
        return np.array([trace.job.submitted_us for trace in self.jobs]) / US_PER_S

    def slowdown(self, reference: str) -> Floats:
        return slowdown(self.wait_s[reference], self.run_s)


def slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    """Bounded by ten seconds, as usual."""
    return np.maximum(1.0, (wait_s + run_s) / np.maximum(10.0, run_s))


def most_jobs() -> int | None:
    """None: all of them."""
    limit = os.environ.get("GPUSQUAD_JOBS")
    return int(limit) if limit else None


def other_logs() -> dict[str, tuple[Path, int]]:
    """Name -> file and processors."""
    found = {}
    for part in filter(None, os.environ.get("GPUSQUAD_LOGS", "").split(",")):
        path, _, processors = part.rpartition(":")
        found[Path(path).name.removesuffix(".gz").removesuffix(".swf")] = (Path(path), int(processors))
    return found


@lru_cache(maxsize=1)
def read_log(name: str) -> Log:
    """Read a log by name. The last one is cached, because benches replay one log after another."""
    limit = most_jobs()
    if name in PROCESSORS:
        path = data_path(f"swf-backfill/{name}_jobs_and_reference_waits.csv.gz")
        jobs = read(path).jobs[:limit]
        return Log(name, PROCESSORS[name], jobs, _reference_waits(path, jobs))
    path, processors = other_logs()[name]
    jobs = [trace for trace in read(path, skip_bad=True).jobs if trace.job.gpus <= processors][:limit]
    return Log(name, processors, jobs, {})


def _reference_waits(path: Path, jobs: list[TraceJob]) -> dict[str, Floats]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = {row["job_id"]: row for row in csv.DictReader(file)}
    return {name: np.array([float(rows[t.job.id][f"wait_{name}"]) for t in jobs]) for name in REFERENCES}
