"""Waits of each job compared with a reference implementation, on three logs of the Parallel Workloads Archive.

The logs have the wait of every job under EASY with user estimates and under EASY with shortest-first backfill and
actual run times (Gaussier et al., SC '15). "EASY" is not one algorithm: the order of events at one instant matters, so
the simulator follows the reference's order.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

from bench.claims import claim
from bench.data import data_path
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import grid
from gpusquad.model.units import US_PER_S
from gpusquad.sim.simulator import Predict, Scenario, exact, simulate, user
from gpusquad.sim.traces import TraceJob, read

NAME = "backfill"
SUMMARY = "waits job for job against a reference EASY on three SP2 logs"

PROCESSORS = {"KTH-SP2": 100, "SDSC-SP2": 128, "CTC-SP2": 338}
REFERENCES: dict[str, tuple[str, Predict]] = {
    "wait_easy": ("easy", user),
    "wait_easypp_clairvoyant": ("easy:backfill=shortest", exact),
}


def run() -> list[dict]:
    """How many jobs wait longer or shorter than in the reference: none may."""
    claims = []
    for log, processors in PROCESSORS.items():
        path = data_path(f"swf-backfill/{log}_jobs_and_reference_waits.csv.gz")
        jobs = read(path).jobs
        for column, (plan, predict) in REFERENCES.items():
            waits_us = _waits_us(jobs, processors, plan, predict)
            expected_us = _expected_us(path, column)
            differ = sum(waits_us.get(job_id) != wait_us for job_id, wait_us in expected_us.items())
            name = f"{log}, {len(expected_us):,} jobs: waits that differ from {column}"
            claims.append(claim(name, differ, "jobs", "lower", bar=0, baseline=0))
    return claims


def _waits_us(jobs: list[TraceJob], processors: int, plan: str, predict: Predict) -> dict[str, int | None]:
    policies = make_policies("fifo", plan, "binpack")
    scenario = Scenario(grid(f"{processors}x1"), jobs, policies, predict, event_order="reference")
    return {outcome.job.id: outcome.wait_us for outcome in simulate(scenario).outcomes}


def _expected_us(path: Path, column: str) -> dict[str, int]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {row["job_id"]: round(float(row[column]) * US_PER_S) for row in csv.DictReader(file)}
