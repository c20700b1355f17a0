"""Cost of one prediction after many learned runs."""

from __future__ import annotations

import random
import time

import numpy as np

from bench.claims import claim
from gpusquad import registry
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.prediction import PastRun, Predictor
from gpusquad.model.units import US_PER_S

USERS, RUNS, ASKED = 500, 100_000, 2_000
MAX_MS = 5.0


def cost(name: str, runs: int, asked: int = ASKED) -> list[dict]:
    """Many users, each with a few kinds of jobs, whose runs vary by factors."""
    predictor, rng = registry.create("predictor", name), random.Random(5)
    began = time.thread_time()
    for index in range(runs):
        job = synthetic(rng, index)
        predictor.learn(PastRun(job, round(rng.lognormvariate(8 + hash_of(job), 1)) * US_PER_S, job.submitted_us + 1))
    learn_us = 1e6 * (time.thread_time() - began) / max(runs, 1)
    took = np.array([_timed_us(predictor, synthetic(rng, runs + index)) for index in range(asked)])
    (by_clock_us, by_cpu_us), mean_us = np.percentile(took, 99, axis=0), took.mean(axis=0)[1]
    label = f"{name} after {runs:,} runs of {USERS} users"
    return [
        claim(f"{label}: one prediction, p99", float(by_clock_us) / 1e3, "ms", "lower", bar=MAX_MS),
        claim(f"{label}: one prediction, p99 of CPU time", float(by_cpu_us) / 1e3, "ms", "lower"),
        claim(f"{label}: one prediction, mean CPU time", float(mean_us), "µs", "lower"),
        claim(f"{label}: one run learned, mean CPU time", learn_us, "µs", "lower"),
    ]


def synthetic(rng: random.Random, index: int) -> Job:
    user, kind = rng.randrange(USERS), rng.randrange(6)
    role = Role("w", 2 ** (kind % 4), Request(gpus=1))
    return Job(f"j{index}", (role,), submitted_us=60 * US_PER_S * index, tenant=f"t{user % 20}", user=f"u{user}",
               name=f"train-{kind}-{index}", app=f"model{kind}", estimate_us=(kind + 1) * 7200 * US_PER_S)  # fmt: skip


def hash_of(job: Job) -> float:
    """A kind of job has its own usual run time."""
    return (job.tasks * 7 + len(job.user) * 3 + int(job.user[1:])) % 11 / 4 - 1


def _timed_us(predictor: Predictor, job: Job) -> tuple[float, float]:
    """By the clock, and by the CPU time of this thread."""
    began, cpu_began = time.perf_counter(), time.thread_time()
    predictor.predict(job)
    return 1e6 * (time.perf_counter() - began), 1e6 * (time.thread_time() - cpu_began)
