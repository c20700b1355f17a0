"""How good start forecasts are: a week of Philly jobs in the simulator, each forecast when it begins to wait.

The cluster is as busy as Philly's queues were: jobs of one week, on as many GPUs as make the load 0.95. Run times are
predicted as in mode standard, from history alone, and starts as in the service: by replaying the plan. But every queue
is replayed twice; the service leaves the P90 out where one replay takes half a second. Every five simulated minutes,
all jobs that began to wait get their first forecast. The baselines know the waits of all jobs that started before:
their mean, their median with their P90, and those of jobs with as many GPUs.
"""

from __future__ import annotations

import time
from bisect import insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

from bench.claims import claim
from bench.data import data_path
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.model.cluster import grid
from gpusquad.model.units import US_PER_S
from gpusquad.modes import load_mode
from gpusquad.server.services.prediction.start_accuracy import wait_errors
from gpusquad.server.services.queries.plan_forecast import planned
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Scenario, simulate
from gpusquad.sim.traces import TraceJob, read

NAME = "start_forecasts"
SUMMARY = "forecasts of starts in a week of Philly jobs, beside means and quantiles of past waits"
SLOW = True

WEEK_US = 7 * 86_400 * US_PER_S
WARM_US = 86_400 * US_PER_S
"""The first day fills the cluster and the history, and is not scored."""
EVERY_US = 300 * US_PER_S
LOAD, NODE_GPUS, MODE = 0.95, 8, "standard"
LEAST = 20
"""Past waits before a baseline has an opinion; without, it says that the job starts now."""


@dataclass(frozen=True)
class Forecast:
    """A first forecast, and the start."""

    made_us: int
    mid_us: int
    high_us: int | None
    started_us: int | None


@dataclass(frozen=True)
class _Waiting:
    """What was known when a job began to wait."""

    made_us: int
    waited_us: int
    gpus: int
    mid_us: int
    high_us: int | None


class Recorder:
    """Forecasts new pending jobs at an interval."""

    def __init__(self) -> None:
        self.seen: dict[str, _Waiting] = {}
        self.took_s: list[float] = []
        """CPU time of each forecast of the whole queue."""
        self._next_us = 0

    def on_cycle(self, state: SchedulerState, now_us: int) -> None:
        if now_us < self._next_us:
            return
        new = [waiting.job for waiting in state.queue if waiting.job.id not in self.seen]
        if not new:
            return
        self._next_us = now_us + EVERY_US
        began_s = time.thread_time()
        plan = planned(copy_state(state), inf)
        self.took_s.append(time.thread_time() - began_s)
        for job in new:
            eta = plan.starts.get(job.id)
            if eta is not None and eta.start_us is not None:
                self.seen[job.id] = _Waiting(now_us, now_us - job.submitted_us, job.gpus, eta.start_us, eta.high_us)


def run() -> list[dict]:
    jobs, gpus = week()
    mode, recorder = load_mode(MODE), Recorder()
    assert mode.predictor is not None
    feed = PredictorFeed(mode.predictor, mode.uses).parts()
    result = simulate(Scenario(grid(f"{gpus // NODE_GPUS}x{NODE_GPUS}"), jobs, mode.policies(),
                               on_cycle=recorder.on_cycle, **feed))  # fmt: skip
    starts = {one.job.id: one.started_us for one in result.outcomes if one.started_us is not None}
    submitted = {one.job.id: one.job.submitted_us for one in jobs}
    scored = [job_id for job_id, seen in recorder.seen.items()
              if job_id in starts and seen.made_us >= jobs[0].job.submitted_us + WARM_US]  # fmt: skip
    ours = [Forecast(one.made_us, one.mid_us, one.high_us, starts[job_id])
            for job_id in scored if (one := recorder.seen[job_id])]  # fmt: skip
    started = [(at_us, at_us - submitted[job_id], recorder.seen.get(job_id)) for job_id, at_us in starts.items()]
    asked = [(recorder.seen[job_id], starts[job_id]) for job_id in scored]
    others = baselines(asked, sorted(started, key=lambda one: one[0]))
    return [
        *claims(ours, others),
        claim("CPU time of a forecast of the queue, median", median(recorder.took_s), "s", "lower"),
    ]


def week() -> tuple[list[TraceJob], int]:
    """The busiest week of the log, and the GPUs (whole nodes) that make the load."""
    jobs = sorted(read(data_path("philly-jobs/philly.csv.gz")).jobs, key=lambda one: one.job.submitted_us)
    weeks: defaultdict[int, list[TraceJob]] = defaultdict(list)
    for one in jobs:
        weeks[one.job.submitted_us // WEEK_US].append(one)
    busiest = max(weeks.values(), key=len)
    work_us = sum(one.run_us * one.job.gpus for one in busiest)
    widest = max(one.job.gpus for one in busiest)
    gpus = max(widest, round(work_us / (LOAD * WEEK_US)))
    gpus = -(-gpus // NODE_GPUS) * NODE_GPUS
    return [replace(one, job=replace(one.job, estimate_us=None)) for one in busiest], gpus


def baselines(asked: Sequence[tuple[_Waiting, int]], started: Sequence[tuple]) -> dict[str, list[Forecast]]:
    """Forecasts from the waits of jobs that had waited and started before each question."""
    waits: list[int] = []
    by_size: defaultdict[int, list[int]] = defaultdict(list)
    found: dict[str, list[Forecast]] = {"mean wait": [], "median wait": [], "median wait of the size": []}
    at = 0
    for seen, start_us in sorted(asked, key=lambda pair: pair[0].made_us):
        while at < len(started) and started[at][0] <= seen.made_us:
            if (other := started[at][2]) is not None:
                insort(waits, started[at][1])
                insort(by_size[other.gpus], started[at][1])
            at += 1
        submitted_us = seen.made_us - seen.waited_us
        mean = round(sum(waits) / len(waits)) if len(waits) >= LEAST else 0
        size = by_size[seen.gpus] if len(by_size[seen.gpus]) >= LEAST else waits
        for name, mid, high in (("mean wait", mean, _at(waits, 0.9)), ("median wait", _at(waits, 0.5), _at(waits, 0.9)),
                                ("median wait of the size", _at(size, 0.5), _at(size, 0.9))):  # fmt: skip
            mid_us = max(seen.made_us, submitted_us + mid)
            found[name].append(Forecast(seen.made_us, mid_us, max(mid_us, submitted_us + high), start_us))
    return found


def _at(ordered: Sequence[int], level: float) -> int:
    return ordered[min(len(ordered) - 1, int(level * len(ordered)))] if len(ordered) >= LEAST else 0


def claims(ours: Sequence[Forecast], others: dict[str, list[Forecast]]) -> list[dict]:
    found = []
    own = wait_errors("plan", ours)
    best = {name: wait_errors(name, rows) for name, rows in others.items()}
    found.append(claim("jobs that waited", own["count"], "", "higher"))
    found.append(claim("median wait", (own["median_wait_s"] or 0) / 60, "min", "lower"))
    for field, name in (("within_10min", "started within 10 min of the forecast"),
                        ("within_factor_2", "waited half to twice the forecast")):  # fmt: skip
        for other, errors in best.items():
            found.append(claim(f"{name} (baseline: {other})", 100 * own[field], "%", "higher",
                               baseline=100 * errors[field]))  # fmt: skip
    known = sum(one.high_us is not None for one in ours)
    found.append(claim("forecasts with a P90", 100 * known / max(1, len(ours)), "%", "higher"))
    for field, level in (("within_p50", 50), ("within_p90", 90)):
        name = f"started by the P{level}, ideal {level} (baseline: median wait)"
        found.append(claim(name, 100 * (own[field] or 0), "%", "higher",
                           baseline=100 * best["median wait"][field]))  # fmt: skip
    found.append(claim("median error (baseline: median wait)", own["median_error_s"] / 60, "min", "lower",
                       baseline=best["median wait"]["median_error_s"] / 60))  # fmt: skip
    return found
