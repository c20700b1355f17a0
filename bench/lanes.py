"""Which lane should be preempted? All settings on Philly jobs, compared with a run without preemption.

The first 2,000 jobs of the Philly trace, ordered by shortest remaining time with known run times, so that only the
lanes differ. The published cluster hardly queues on this cut of the trace. Here the number of nodes with eight GPUs
gives an offered load of 0.95. The trace has no data on checkpoints: one per hour and a minute to restart are assumed.
The default lets large jobs give way where they lose little: shortly after a checkpoint, or where the engine can suspend
them.
"""

from __future__ import annotations

from dataclasses import replace

from bench.claims import claim
from bench.data import data_path
from bench.philly import LOAD
from gpusquad.core.state.policies import PreemptionConfig, make_policies
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.job import Checkpoint
from gpusquad.model.units import US_PER_S
from gpusquad.modes import load_lanes
from gpusquad.sim.metrics import Summary, summarise
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob, read

NAME = "lanes"
SUMMARY = "which lane may be preempted, measured on 2,000 Philly jobs"

JOBS = 2_000
NODE_GPUS = 8
CHECKPOINT = Checkpoint(every_us=3600 * US_PER_S, restart_us=60 * US_PER_S)
BOTH = ("small", "large")
SETTINGS: dict[str, tuple[tuple[str, ...] | None, bool]] = {
    "nobody": ((), False),
    "small jobs": (("small",), False),
    "large jobs": (("large",), False),
    "both": (BOTH, False),
    "default": (None, False),
    "small jobs, suspended": (("small",), True),
    "large jobs, suspended": (("large",), True),
    "default, suspended": (None, True),
}
"""Preemptible lanes (None: by the default rule), and whether the engine suspends."""


def run() -> list[dict]:
    """Told, not judged: there is no bar. The baseline is the run without preemption."""
    jobs = [replace(t, job=replace(t.job, checkpoint=CHECKPOINT)) for t in _jobs()]
    cluster = cluster_for(jobs)
    summaries = {name: _summary(jobs, cluster, *setting) for name, setting in SETTINGS.items()}
    claims = []
    for name, summary in summaries.items():
        for (label, value, unit), (_, alone, _) in zip(_figures(summary), _figures(summaries["nobody"]), strict=True):
            claims.append(claim(f"{label}, preempted: {name}", value, unit, "lower", baseline=alone))
    return claims


def cluster_for(jobs: list[TraceJob]) -> Cluster:
    """As many nodes as make the offered load ``LOAD`` (rounded up)."""
    span_us = jobs[-1].job.submitted_us - jobs[0].job.submitted_us
    gpus = sum(t.run_us * t.job.gpus for t in jobs) / (LOAD * span_us)
    return grid(f"{-int(-gpus // NODE_GPUS)}x{NODE_GPUS}")


def _jobs() -> list[TraceJob]:
    return read(data_path("philly-jobs/philly.csv.gz")).jobs[:JOBS]


def _summary(jobs: list[TraceJob], cluster: Cluster, preemptible: tuple[str, ...] | None, suspends: bool) -> Summary:
    preemption = PreemptionConfig(by="none" if preemptible == () else "order")
    lanes = load_lanes()
    if preemptible is not None:
        lanes = tuple(replace(lane, preemptible=lane.name in preemptible, max_lost_s=None) for lane in lanes)
    policies = make_policies("srpt", "easy", "binpack", preemption=preemption, lanes=lanes)
    return summarise(simulate(Scenario(cluster, jobs, policies, exact, suspends=suspends)))


def _figures(summary: Summary) -> list[tuple[str, float, str]]:
    return [
        ("mean JCT", round((summary.jct_s.mean or 0) / 3600, 2), "h"),
        ("p99 wait", round((summary.wait_s.p99 or 0) / 3600, 1), "h"),
        ("GPU hours lost", round(summary.lost_gpu_hours, 1), "h"),
    ]
