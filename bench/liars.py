"""How late does a reserved job start when later jobs run longer than predicted, if reservations bind and if not?

Liars: a job of 8 GPUs waits for one of 6, and then 2,000 jobs of 2 GPUs arrive, estimated at 5 minutes and running for
20. Heavy tail: 808 jobs with log-normal run times at a load of 0.96, each with its own factor of error in the estimate.
The baseline is the same mode with ``binds=never``. In the rows "guests suspended", guests are stopped without loss,
which no engine offers yet.
"""

from __future__ import annotations

import random
from dataclasses import replace

from bench.claims import claim
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.modes import load_mode
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate, user
from gpusquad.sim.traces import TraceJob

NAME = "liars"
SUMMARY = "delay of a reserved job when later jobs run longer than predicted"

MODES = ("standard", "fifo", "fair")
LIARS, ESTIMATE_S, RUN_S, FIRST_S = 2_000, 300, 1_200, 600
TAIL_JOBS, LOAD, SEED = 808, 0.96, 5
NODES = 8


def run() -> list[dict]:
    claims = []
    for mode in MODES:
        after, before = (head_start_s(liars(), mode, binds) - FIRST_S for binds in (True, False))
        claims.append(claim(f"{mode}: head of 2,000 liars starts late by", after, "s", "lower", bar=RUN_S - ESTIMATE_S,
                            baseline=before))  # fmt: skip
    for mode in MODES:
        before, after, suspended = (_simulated(grid(f"{NODES}x8"), heavy_tail(), mode, *how)
                                    for how in ((False,), (True,), (True, True)))  # fmt: skip
        unbound_h = longest_delay_h(before)
        for name, result in (("", after), (", guests suspended", suspended)):
            claims.append(claim(f"{mode}: heavy tail{name}, longest true head delay", longest_delay_h(result), "h",
                                "lower", bar=unbound_h / 10, baseline=unbound_h))  # fmt: skip
            claims.append(claim(f"{mode}: heavy tail{name}, mean JCT", mean_jct_h(result), "h", "lower",
                                baseline=mean_jct_h(before)))  # fmt: skip
    return claims


def liars() -> list[TraceJob]:
    jobs = [_job("ahead", 6, FIRST_S, 0, FIRST_S), _job("head", 8, 100, 1, 100)]
    return jobs + [_job(f"liar{i:04}", 2, RUN_S, 2 + i, ESTIMATE_S) for i in range(LIARS)]


def heavy_tail() -> list[TraceJob]:
    """Wide gangs among many small jobs, on 64 GPUs."""
    rng = random.Random(SEED)
    drawn = [
        (rng.choice((1, 1, 1, 2, 2, 4, 8, 16, 32)), min(rng.lognormvariate(7.5, 1.8), 2e5)) for _ in range(TAIL_JOBS)
    ]
    span_s = sum(gpus * run_s for gpus, run_s in drawn) / (LOAD * NODES * 8)
    times = sorted(rng.random() * span_s for _ in drawn)
    return [
        _job(f"j{i:03}", gpus, run_s, at_s, run_s * rng.lognormvariate(0, 1.2))
        for i, ((gpus, run_s), at_s) in enumerate(zip(drawn, times, strict=True))
    ]


def head_start_s(jobs: list[TraceJob], mode: str, binds: bool) -> float:
    outcomes = _simulated(grid("1x8"), jobs, mode, binds).outcomes
    return next(o.started_us or 0 for o in outcomes if o.job.id == "head") / US_PER_S


def longest_delay_h(result: SimulationResult) -> float:
    return max(result.head_delay_us.values()) / US_PER_S / 3600


def mean_jct_h(result: SimulationResult) -> float:
    times_us = [(o.ended_us or 0) - o.job.submitted_us for o in result.outcomes]
    return sum(times_us) / len(times_us) / US_PER_S / 3600


def _simulated(cluster: Cluster, jobs: list[TraceJob], name: str, binds: bool, suspends: bool = False
               ) -> SimulationResult:  # fmt: skip
    mode = load_mode(name)
    policies = mode.policies()
    if not binds:
        loose = f"{mode.plan}{',' if ':' in mode.plan else ':'}binds=never"
        policies = replace(policies, plan=make_policies(plan=loose).plan)
    if mode.predictor:
        feed = PredictorFeed(mode.predictor, mode.uses).parts()
        return simulate(Scenario(cluster, jobs, policies, suspends=suspends, **feed))
    return simulate(Scenario(cluster, jobs, policies, user, suspends=suspends))


def _job(name: str, cards: int, run_s: float, at_s: float, estimate_s: float) -> TraceJob:
    job = Job(name, (Role("worker", cards, Request(gpus=1)),), round(at_s * US_PER_S), app=name[:4], user="ada",
              estimate_us=max(1, round(estimate_s * US_PER_S)))  # fmt: skip
    return TraceJob(job, max(1, round(run_s * US_PER_S)))
