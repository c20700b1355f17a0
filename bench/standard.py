"""The default mode beside plain schedulers and the other modes, on six public traces.

``fifo`` starts jobs strictly in order of submission. ``easy user`` adds EASY backfill with the users' estimates. Where
users give none (the GPU traces), the estimate is the median run time of the virtual cluster so far. ``easy exact`` is
the same with actual run times: what perfect predictions would give. Modes learn run times while the trace is replayed,
as the service does. Gavel: all 15 virtual clusters of its Philly part on one cluster, with models assigned by its
authors. The sizes of the GPU clusters follow from the jobs, as in ``gpu-traces``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from bench._logs import Floats, most_jobs, read_log
from bench._pages import keep
from bench._play import Played, mode_facts, play, side_by_side
from bench._watched_predictors import RunningMedian
from bench.backfill import PROCESSORS
from bench.claims import claim
from bench.data import data_path
from bench.gpu_traces import NODE_GPUS, TRACES, cluster_for, read_trace
from gpusquad.core.state.policies import make_policies
from gpusquad.model.cluster import Cluster
from gpusquad.modes import load_mode
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import exact, user
from gpusquad.sim.traces import TraceJob, read

NAME = "standard"
SUMMARY = "the default mode beside FIFO, EASY and the other modes on six public traces"
SLOW = True

GAVEL = "gavel"
FIFO, EASY, CLAIRVOYANT, STANDARD = "fifo", "easy user", "easy exact", "standard"
OTHERS = {"fair": "mean slowdown", "jct": "mean JCT h", "predictive": "mean slowdown",
          "predictive-fifo": "mean slowdown"}  # fmt: skip
"""Other modes, and the figure each is made for."""
RUNS = (FIFO, EASY, CLAIRVOYANT, STANDARD, *OTHERS)
DEFAULT_PREDICTOR = "combined"

Figures = dict[str, Any]


def run() -> list[dict]:
    names = (*TRACES, GAVEL, *PROCESSORS)
    played = side_by_side(play_one, [(name, kind) for name in names for kind in RUNS])
    kept = {name: {kind: figures(played[name, kind]) for kind in RUNS} for name in names}
    keep(NAME, {"modes": mode_facts(STANDARD, *OTHERS), "traces": kept})
    return [one for name in names for one in claims(name, kept[name])]


def play_one(task: tuple[str, str]) -> Played:
    """A trace, and a scheduler with its source of run times."""
    name, kind = task
    cluster, jobs = workload(name)
    if kind == FIFO:
        return play(cluster, jobs, make_policies("fifo", "none", "binpack"), exact)
    if kind in (EASY, CLAIRVOYANT):
        estimated = all(trace.job.estimate_us is not None for trace in jobs)
        guess = user if estimated else PredictorFeed(RunningMedian())
        return play(cluster, jobs, make_policies("fifo", "easy", "binpack"), exact if kind == CLAIRVOYANT else guess)
    mode = load_mode(kind)
    return play(cluster, jobs, mode.policies(), PredictorFeed(mode.predictor or DEFAULT_PREDICTOR, mode.uses))


def workload(name: str) -> tuple[Cluster, list[TraceJob]]:
    if name in PROCESSORS:
        log = read_log(name)
        return log.cluster, log.jobs
    jobs = read_gavel() if name == GAVEL else read_trace(name)
    return cluster_for(jobs), jobs


@lru_cache(maxsize=1)
def read_gavel() -> list[TraceJob]:
    """Each virtual cluster is a tenant."""
    jobs = read(data_path("gavel-throughputs/gavel_traces.csv.gz"), "gavel:trace=msr", node_gpus=NODE_GPUS).jobs
    owned = (replace(t, job=replace(t.job, tenant=t.job.id.partition("#")[0])) for t in jobs)
    return sorted(owned, key=lambda trace: trace.job.submitted_us)[: most_jobs()]


def figures(one: Played) -> Figures:
    """One row of the table."""
    return {
        "mean JCT h": one.mean_jct_h, "p99 wait h": float(np.percentile(one.wait_s, 99)) / 3600,
        "mean slowdown": one.mean_slowdown, "head delay mean h": _or_zero(one.passed_h, np.mean),
        "head delay longest h": _or_zero(one.passed_h, np.max), "longest wait h": one.max_wait_h,
        "jobs": len(one.wait_s),
    }  # fmt: skip


def claims(name: str, rows: dict[str, Figures]) -> list[dict]:
    """The bar of ``standard`` is EASY with user estimates; the baseline of each other mode is ``standard``."""
    found = []
    for figure in ("mean JCT h", "p99 wait h", "mean slowdown", "head delay mean h", "head delay longest h"):
        for kind in (FIFO, EASY, CLAIRVOYANT, STANDARD):
            bar = rows[EASY][figure] if kind == STANDARD else None
            found.append(claim(f"{name}, {kind}: {_words(figure)}", rows[kind][figure], _unit(figure), "lower", bar=bar,
                               baseline=rows[EASY][figure]))  # fmt: skip
    for mode, figure in OTHERS.items():
        found.append(claim(f"{name}, {mode}: {_words(figure)}", rows[mode][figure], _unit(figure), "lower",
                           baseline=rows[STANDARD][figure]))  # fmt: skip
    return found


def _words(figure: str) -> str:
    return figure.removesuffix(" h")


def _unit(figure: str) -> str:
    return "h" if figure.endswith(" h") else ""


def _or_zero(values: Floats, of: Any) -> float:
    return float(of(values)) if len(values) else 0.0
