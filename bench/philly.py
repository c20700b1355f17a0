"""Jobs resampled from the public Philly trace at a fixed offered load, for measuring speed at any size."""

from __future__ import annotations

import random
from dataclasses import replace

from bench.data import data_path
from gpusquad.model.cluster import GIB, Card, Cluster, Node
from gpusquad.sim.traces import TraceJob, read

LOAD = 0.95
SEED = 7


def gpus_2500() -> Cluster:
    """312 nodes of eight cards and one of four."""
    sizes = [8] * 312 + [4]
    return Cluster(
        tuple(
            Node(f"n{n}", tuple(Card(f"n{n}/{c}") for c in range(size)), 128_000, 2048 * GIB)
            for n, size in enumerate(sizes)
        )
    )


def resample(count: int, gpus: int, seed: int = SEED) -> list[TraceJob]:
    """Draw jobs with replacement; arrivals are spread evenly at random over the time that makes the load exact."""
    pool = read(data_path("philly-jobs/philly.csv.gz")).jobs
    rng = random.Random(seed)
    drawn = [rng.choice(pool) for _ in range(count)]
    work_us = sum(t.run_us * t.job.gpus for t in drawn)
    span_us = work_us / (LOAD * gpus)
    times = sorted(rng.random() * span_us for _ in drawn)
    return [
        replace(t, job=replace(t.job, id=f"j{i}", submitted_us=int(at_us)))
        for i, (t, at_us) in enumerate(zip(drawn, times, strict=True))
    ]
