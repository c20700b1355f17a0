"""How good start forecasts are: a week of Philly jobs in the simulator, each forecast when it begins to wait.

The cluster is as busy as Philly's queues were: jobs of one week, on as many GPUs as make the load 0.95. Run times are
predicted as in mode standard, from history alone, and starts as in the service: the P50 by replaying the plan, the P90
from the forecasts that were settled before, or by a second replay where these are too few. Every five simulated
minutes, all jobs that began to wait get their first forecast. The baselines know the waits of all jobs that started
before: their mean, their median with their P90, and those of jobs with as many GPUs. The constants of the P90 were
chosen on this week; the next two busiest weeks show whether it holds elsewhere.
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
from gpusquad.predict.start_calibration import FirstForecast, StartCalibration
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
OTHER_WEEKS = 1, 2
"""The next busiest weeks, on which no constant of the forecasts was chosen. The P90 is judged in them too."""
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
        self._calibration = StartCalibration()
        self._next_us = 0

    def on_cycle(self, state: SchedulerState, now_us: int) -> None:
        for job_id in self._calibration.open & state.runs.by_id.keys():
            self._calibration.settle(job_id, state.runs[job_id].started_us)
        if now_us < self._next_us:
            return
        new = [waiting.job for waiting in state.queue if waiting.job.id not in self.seen]
        if not new:
            return
        self._next_us = now_us + EVERY_US
        began_s = time.thread_time()
        plan = planned(copy_state(state), self._calibration.at(now_us), inf)
        self.took_s.append(time.thread_time() - began_s)
        for job in new:
            eta = plan.starts.get(job.id)
            if eta is not None and eta.start_us is not None:
                self.seen[job.id] = _Waiting(now_us, now_us - job.submitted_us, job.gpus, eta.start_us, eta.high_us)
                self._calibration.made(job.id, FirstForecast(job.tenant, job.user, now_us, eta.start_us))


def run() -> list[dict]:
    ours, others, took_s = replayed(0)
    found = claims(ours, others)
    for rank in OTHER_WEEKS:
        found += other_claims(rank, replayed(rank)[0])
    return [*found, claim("CPU time of a forecast of the queue, median", median(took_s), "s", "lower")]


def replayed(rank: int) -> tuple[list[Forecast], dict[str, list[Forecast]], list[float]]:
    """Forecasts of one week, those of the baselines, and the CPU times."""
    jobs, gpus = week(rank)
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
    return ours, baselines(asked, sorted(started, key=lambda one: one[0])), recorder.took_s


def week(rank: int) -> tuple[list[TraceJob], int]:
    """A week of the log, the busiest first, and the GPUs (whole nodes) that make the load."""
    jobs = sorted(read(data_path("philly-jobs/philly.csv.gz")).jobs, key=lambda one: one.job.submitted_us)
    weeks: defaultdict[int, list[TraceJob]] = defaultdict(list)
    for one in jobs:
        weeks[one.job.submitted_us // WEEK_US].append(one)
    chosen = sorted(weeks.values(), key=len, reverse=True)[rank]
    work_us = sum(one.run_us * one.job.gpus for one in chosen)
    widest = max(one.job.gpus for one in chosen)
    gpus = max(widest, round(work_us / (LOAD * WEEK_US)))
    gpus = -(-gpus // NODE_GPUS) * NODE_GPUS
    return [replace(one, job=replace(one.job, estimate_us=None)) for one in chosen], gpus


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
    found.append(claim("forecasts with a P90", known_percent(ours), "%", "higher"))
    for field, level in (("within_p50", 50), ("within_p90", 90)):
        name = f"started by the P{level}, ideal {level} (baseline: median wait)"
        found.append(claim(name, 100 * (own[field] or 0), "%", "higher",
                           baseline=100 * best["median wait"][field]))  # fmt: skip
    found.append(claim("median error (baseline: median wait)", own["median_error_s"] / 60, "min", "lower",
                       baseline=best["median wait"]["median_error_s"] / 60))  # fmt: skip
    p90_us = [one.high_us - one.made_us for one in ours if one.high_us is not None]
    found.append(claim("median of the waits by the P90", median(p90_us) / US_PER_S / 60, "min", "lower"))
    return found


def other_claims(rank: int, ours: Sequence[Forecast]) -> list[dict]:
    """Of a week on which nothing was chosen."""
    errors = wait_errors("plan", ours)
    return [
        claim(f"{name}, week {rank + 1}", value, unit, "higher")
        for name, value, unit in (
            ("jobs that waited", errors["count"], ""),
            ("forecasts with a P90", known_percent(ours), "%"),
            ("started by the P50, ideal 50", 100 * errors["within_p50"], "%"),
            ("started by the P90, ideal 90", 100 * errors["within_p90"], "%"),
        )
    ]


def known_percent(ours: Sequence[Forecast]) -> float:
    return 100 * sum(one.high_us is not None for one in ours) / max(1, len(ours))
