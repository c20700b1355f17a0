"""One decision cycle on a large cluster: 5,000 nodes of eight cards, 10,000 pending gangs."""

from __future__ import annotations

import random
import statistics
import time

from bench.claims import claim
from gpusquad.core.cycle import cycle
from gpusquad.core.state.policies import make_policies
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction

NAME = "cycle"
SUMMARY = "a decision cycle over 40,000 cards with 10,000 pending gangs"
CLUSTER = "5000x8"
PENDING = 10_000
EVENTS = 200
SIZES = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8), (8, 16))
"""(GPUs of a task, tasks) of the gangs, all as likely."""


def run() -> list[dict]:
    rng = random.Random(11)
    state = SchedulerState(grid(CLUSTER), make_policies("fifo", "easy", "binpack"))
    _top_up(state, rng, 0)
    first_s = _timed(state, 0)
    while len(state.queue) < PENDING:
        _top_up(state, rng, 1)
        _timed(state, 1)
    ends, arrivals = _events(state, rng)
    return [
        claim("first cycle", first_s, "s", "lower", bar=5.0),
        claim("cycle after one end, median", statistics.median(ends) * 1e3, "ms", "lower", bar=50.0),
        claim("cycle after one end, 99th of 100", statistics.quantiles(ends, n=100)[98] * 1e3, "ms", "lower"),
        claim("cycle after one arrival, median", statistics.median(arrivals) * 1e3, "ms", "lower", bar=50.0),
    ]


def _top_up(state: SchedulerState, rng: random.Random, now_us: int) -> None:
    state.now_us = now_us
    while len(state.queue) < PENDING:
        _submit(state, rng)


def _submit(state: SchedulerState, rng: random.Random) -> None:
    gpus, tasks = rng.choice(SIZES)
    request = Request(gpus=gpus, cpu_milli=gpus * rng.choice((4000, 8000, 12000)))
    run_us = round(rng.lognormvariate(8, 1.5)) * US_PER_S
    job = Job(f"j{state.sequence}", (Role("w", tasks, request),), submitted_us=state.now_us)
    state.enqueue(job, RunTimePrediction(run_us, run_us))


def _events(state: SchedulerState, rng: random.Random) -> tuple[list[float], list[float]]:
    """End the job that is predicted to end next, or submit one, and time the cycle after it."""
    ends, arrivals = [], []
    for _ in range(EVENTS):
        end_us, _, job_id = state.runs.ends[0]
        state.now_us = end_us
        began = time.perf_counter()
        state.finish(job_id)
        cycle(state, end_us)
        ends.append(time.perf_counter() - began)
        began = time.perf_counter()
        _submit(state, rng)
        cycle(state, end_us)
        arrivals.append(time.perf_counter() - began)
    return ends, arrivals


def _timed(state: SchedulerState, now_us: int) -> float:
    began = time.perf_counter()
    cycle(state, now_us)
    return time.perf_counter() - began
