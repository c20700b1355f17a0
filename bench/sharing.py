"""Gain from sharing cards, compared with the same jobs on whole cards in the same run.

Figure 1: eight jobs of length t (the four applications of a 2020 paper, two of each) on two cards, slowed where their
expected utilisations sum to more than the card. Gavel: training jobs slowed as measured in pairs on a V100. One-GPU
jobs of models that all fit beside each other request half a card, so that at most two share one; other jobs are
unchanged. Interference is not considered; place policies that do so are in other benches.
"""

from __future__ import annotations

from dataclasses import replace

from bench.claims import claim
from bench.data import data_path
from bench.lanes import cluster_for
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Card, Cluster, Node, grid
from gpusquad.model.job import Job, Profile, Request, Role, Share
from gpusquad.model.units import US_PER_S
from gpusquad.sim.colocation import PairTable, load_pairs
from gpusquad.sim.engine import Rate
from gpusquad.sim.metrics import Summary, summarise
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.slowdown import by_pairs, by_profile
from gpusquad.sim.traces import TraceJob, read

NAME = "sharing"
SUMMARY = "whole cards against shared cards: the four applications of Figure 1, and Gavel's training jobs"

GB = 10**9
T_US = 3600 * US_PER_S
APPLICATIONS = {"LAMMPS": (8.3, 0.23), "GROMACS": (0.6, 0.72), "TensorFlow": (3.5, 0.88), "QMCPACK": (5.3, 0.467)}
"""GB of card memory, and utilisation."""
HALF = (Role("worker", 1, Request(share=Share(sm_milli=500))),)
TRACES = {"minimize_makespan": "2x8", "b436b2": ""}
"""A hundred jobs that come at once, on 16 GPUs; and a Philly virtual cluster of 2,000, where "" is a load of 0.95."""


def run() -> list[dict]:
    claims = _figure_1()
    pairs = load_pairs(data_path("gavel-throughputs/simulation_throughputs.json.gz"))
    fit = fit_together(pairs)
    for name, cluster in TRACES.items():
        whole = read(data_path("gavel-throughputs/gavel_traces.csv.gz"), f"gavel:trace={name}").jobs
        shared = [replace(t, job=replace(t.job, roles=HALF)) if _can_share(t, fit) else t for t in whole]
        there = grid(cluster) if cluster else cluster_for(whole)
        before, after = (_summary(there, jobs, by_pairs(pairs)) for jobs in (whole, shared))
        claims += _beside(f"Gavel {name}, {there.gpus} GPUs", before, after)
    return claims


def figure_1_jobs(shared: bool) -> list[TraceJob]:
    """Two of each application, all at once."""
    jobs = []
    for name, (memory_gb, utilisation) in APPLICATIONS.items():
        share = Share(memory_bytes=round(memory_gb * GB))
        request = Request(share=share) if shared else Request(gpus=1)
        profile = Profile(utilisation, share.memory_bytes)
        for copy in (1, 2):
            job = Job(f"{name}-{copy}", (Role("main", 1, request),), app=name, profile=profile, estimate_us=T_US)
            jobs.append(TraceJob(job, T_US))
    return jobs


def figure_1_cluster() -> Cluster:
    """Two nodes with a card of 12 GB each."""
    return Cluster(tuple(Node(f"n{n}", (Card(f"n{n}/0", memory_bytes=12 * GB),), 16_000, 64 * GB) for n in range(2)))


def fit_together(pairs: PairTable) -> set[str]:
    """Models that all fit beside each other, taken greedily from those with the most partners."""

    def fits(a: str, b: str) -> bool:
        return bool(pairs.slowdown(a, b)) and bool(pairs.slowdown(b, a))

    names = sorted({own for own, _ in pairs.ratios})
    chosen: list[str] = []
    for name in sorted(names, key=lambda name: -sum(fits(name, other) for other in names)):
        if all(fits(name, other) for other in (*chosen, name)):
            chosen.append(name)
    return set(chosen)


def _can_share(trace: TraceJob, fit: set[str]) -> bool:
    return trace.job.gpus == 1 and trace.workload in fit


def _figure_1() -> list[dict]:
    whole, shared = (_summary(figure_1_cluster(), figure_1_jobs(shared), by_profile) for shared in (False, True))
    in_t = [round((summary.makespan_s or 0) * US_PER_S / T_US, 3) for summary in (whole, shared)]
    return [
        claim("Figure 1, whole cards: makespan", in_t[0], "t", "lower", bar=4.0, baseline=4.0, ok=in_t[0] == 4.0),
        claim("Figure 1, shared cards: makespan", in_t[1], "t", "lower", bar=4.0, baseline=in_t[0], ok=in_t[1] < 4.0),
    ]


def _beside(name: str, whole: Summary, shared: Summary) -> list[dict]:
    claims = []
    for label, get in (("mean JCT", lambda s: s.jct_s.mean), ("makespan", lambda s: s.makespan_s)):
        before_h, after_h = (round(get(summary) / 3600, 2) for summary in (whole, shared))
        claims.append(claim(f"{name}: {label}, shared beside whole cards", after_h, "h", "lower", baseline=before_h))
    return claims


def _summary(cluster: Cluster, jobs: list[TraceJob], rate: Rate) -> Summary:
    return summarise(simulate(Scenario(cluster, jobs, make_policies("fifo", "easy", "binpack"), exact, rate=rate)))
