"""Two public traces of GPU clusters without estimates: the value of predictions where users give none.

Both come from Microsoft's Philly clusters: 30,940 jobs as cut for Chronus (SoCC '21) with virtual cluster and model
name, and 82,247 jobs as cut for Pollux and Sia with the virtual cluster only. The cluster has the fewest nodes of eight
GPUs that fit the largest job and that the jobs, each started at submission, would fill to at most 95 % on average from
the first submission to the last. Work after that is not counted. Otherwise a few long jobs would lead to a cluster
without a queue.

Pollux's cut has only jobs that ended after its 21st day. Jobs submitted before are in it only because they ran for
days. They would fill the cluster before a predictor could learn anything, so they are left out. Deadlines are left out
as well, because they reveal the run times. The naive estimate is the median run time of the virtual cluster so far.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from bench._logs import most_jobs
from bench._pages import keep
from bench._play import Played, mode_facts, play, side_by_side
from bench._watched_predictors import CausalityCheck, RunningMedian
from bench.claims import claim
from bench.data import data_path
from bench.philly import LOAD
from bench.predictive import FIFO, FREE
from gpusquad import registry
from gpusquad.core.state.policies import Policies, make_policies
from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.prediction import Predictor, QuantileLevels
from gpusquad.modes import load_mode
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import exact
from gpusquad.sim.traces import TraceJob, read

NAME = "gpu-traces"
SUMMARY = "job completion times on two Philly traces without estimates, by what is known of run times"
SLOW = True

TRACES = {"philly": "philly-jobs/philly.csv.gz", "chronus": "chronus-philly-slo/trace_job_Philly_SLO.csv.gz"}
MAX_JOBS = {"philly": 15_000, "chronus": 30_940}
"""Number of jobs: of the longer trace as many as can be replayed in a minute or two, of the other all."""
RECORD_BEGINS_LATE = frozenset({"philly"})
LEAST_WAIT = 0.05
"""Minimum fraction of jobs that wait without backfill. On a cluster without a queue all schedulers are alike."""
LEAST_BY_HISTORY = 0.9
"""Minimum fraction of predictions from history. With fewer, a run would show nothing about predictions."""
NODE_GPUS = 8
RUNS = ("fifo", "easy naive", f"{FIFO} online", f"{FREE} online", f"{FIFO} exact", f"{FREE} exact")
HONEST = frozenset({"history", "prior", "none"})
"""Sources that use no future end. The prior is learned from the past runs of all jobs. Quantiles of Philly are shipped
with it and count for 40 runs, less those seen, on Philly too."""


@dataclass(frozen=True)
class Seen:
    """A run, and where its forecasts came from (nothing, where run times were known)."""

    played: Played
    sources: dict[str, int]
    too_early: int


def run() -> list[dict]:
    seen = side_by_side(play_trace, [(trace, kind) for trace in TRACES for kind in RUNS])
    runs = [{"trace": trace, "run": kind, "mean JCT h": one.played.mean_jct_h, "p99 wait h": _p99_h(one.played),
             "mean slowdown": one.played.mean_slowdown, "sources": one.sources}
            for (trace, kind), one in seen.items()]  # fmt: skip
    keep(NAME, {"modes": mode_facts(FIFO, FREE), "runs": runs})
    return [one for trace in TRACES for one in claims(trace, {kind: seen[trace, kind] for kind in RUNS})]


def play_trace(task: tuple[str, str]) -> Seen:
    jobs, (scheduler, *knows) = read_trace(task[0]), task[1].split()
    cluster = cluster_for(jobs)
    if scheduler == "fifo":
        return Seen(play(cluster, jobs, make_policies("fifo", "none", "binpack"), exact), {}, 0)
    if knows == ["naive"]:
        return _watched(cluster, jobs, make_policies("fifo", "easy", "binpack"), RunningMedian())
    mode = load_mode(scheduler)
    if knows == ["exact"]:
        return Seen(play(cluster, jobs, mode.policies(), exact), {}, 0)
    return _watched(cluster, jobs, mode.policies(), registry.create("predictor", mode.predictor), mode.uses)


def claims(trace: str, seen: dict[str, Seen]) -> list[dict]:
    """The baseline is EASY with the naive estimate."""
    jobs = read_trace(trace)
    label = f"{trace}, {len(jobs):,} jobs on {cluster_for(jobs).gpus} GPUs"
    naive, found = seen["easy naive"].played, []
    for kind, one in seen.items():
        found.append(claim(f"{label}, {kind}: mean JCT", one.played.mean_jct_h, "h", "lower",
                           baseline=naive.mean_jct_h))  # fmt: skip
        found.append(claim(f"{label}, {kind}: p99 wait", _p99_h(one.played), "h", "lower", baseline=_p99_h(naive)))
    waited = float((seen["fifo"].played.wait_s > 0).mean())
    found.append(claim(f"{label}, fifo: part that waits", waited, "", "higher", bar=LEAST_WAIT))
    learners = [one for one in seen.values() if one.sources]
    others = sum(count for one in learners for source, count in one.sources.items() if source not in HONEST)
    found.append(claim(f"{label}: forecasts from anything but past runs and the prior", others, "", "lower", bar=0))
    least = min(one.sources.get("history", 0) / sum(one.sources.values()) for one in learners)
    found.append(claim(f"{label}: forecasts from past runs, least part of any run", least, "", "higher",
                       bar=LEAST_BY_HISTORY))  # fmt: skip
    early = sum(one.too_early for one in learners)
    found.append(claim(f"{label}: forecasts by one who knew an end to come", early, "", "lower", bar=0))
    return found


@lru_cache(maxsize=1)
def read_trace(name: str) -> list[TraceJob]:
    """Remove everything that reveals the run time in advance."""
    jobs = read(data_path(TRACES[name]), node_gpus=NODE_GPUS).jobs
    jobs = (since_record_began(jobs) if name in RECORD_BEGINS_LATE else jobs)[: most_jobs() or MAX_JOBS[name]]
    return [replace(trace, job=replace(trace.job, slo=None, estimate_us=None, expected=None)) for trace in jobs]


def since_record_began(jobs: list[TraceJob]) -> list[TraceJob]:
    """Without those submitted before the first end of all: of their time only the long ones are known."""
    first_end_us = min(trace.job.submitted_us + trace.run_us for trace in jobs)
    return [trace for trace in jobs if trace.job.submitted_us >= first_end_us]


def cluster_for(jobs: list[TraceJob]) -> Cluster:
    """The fewest nodes that are enough."""
    first_us, last_us = jobs[0].job.submitted_us, jobs[-1].job.submitted_us
    work_us = sum(min(trace.run_us, last_us - trace.job.submitted_us) * trace.job.gpus for trace in jobs)
    gpus = max(work_us / (LOAD * max(1, last_us - first_us)), max(trace.job.gpus for trace in jobs))
    return grid(f"{max(1, -int(-gpus // NODE_GPUS))}x{NODE_GPUS}")


def _watched(cluster: Cluster, jobs: list[TraceJob], policies: Policies, predictor: Predictor,
             uses: QuantileLevels | None = None) -> Seen:  # fmt: skip
    check = CausalityCheck(predictor)
    played = play(cluster, jobs, policies, PredictorFeed(check, uses))
    return Seen(played, dict(check.sources), check.too_early)


def _p99_h(one: Played) -> float:
    return float(np.percentile(one.wait_s, 99)) / 3600
