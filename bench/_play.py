"""A simulation as the few columns that the prediction benches look at, and several of them side by side."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from bench._logs import Floats, Log, slowdown
from gpusquad.core.state.policies import Policies
from gpusquad.model.cluster import Cluster
from gpusquad.model.units import US_PER_S
from gpusquad.modes import load_mode
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.predictor_feed import PredictorFeed
from gpusquad.sim.simulator import Predict, Scenario, simulate
from gpusquad.sim.traces import TraceJob

US_PER_H = 3600 * US_PER_S
WORKERS = 2

Task = TypeVar("Task")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Played:
    """Jobs by submission."""

    submitted_s: Floats
    wait_s: Floats
    run_s: Floats
    late_h: Floats
    """Jobs with a reservation: hours of start after the first reserved start."""
    passed_h: Floats
    """Heads of the queue: hours of start after the start without backfill."""

    @property
    def slowdown(self) -> Floats:
        return slowdown(self.wait_s, self.run_s)

    @property
    def mean_slowdown(self) -> float:
        return float(self.slowdown.mean())

    @property
    def max_wait_h(self) -> float:
        return float(self.wait_s.max()) / 3600

    @property
    def mean_jct_h(self) -> float:
        return float((self.wait_s + self.run_s).mean()) / 3600


def play(cluster: Cluster, jobs: Sequence[TraceJob], policies: Policies, by: Predict | PredictorFeed) -> Played:
    """``by``: a predictor that learns as jobs end, or a function that returns predictions."""
    if isinstance(by, PredictorFeed):
        scenario = Scenario(cluster, jobs, policies, **by.parts())
    else:
        scenario = Scenario(cluster, jobs, policies, by)
    return _columns(simulate(scenario))


def play_mode(log: Log, mode: str, by: Predict | None = None) -> Played:
    """Replay a mode with its own predictor, or with the given predictions."""
    chosen = load_mode(mode)
    return play(log.cluster, log.jobs, chosen.policies(), by or PredictorFeed(chosen.predictor, chosen.uses))


def mode_facts(*names: str) -> dict[str, dict[str, str]]:
    """Settings of the modes at the time of the measurement, stored with the figures."""
    modes = [load_mode(name) for name in names]
    return {m.name: {"order": m.order, "plan": m.plan, "predictor": m.predictor, "uses": str(m.uses)} for m in modes}


def side_by_side(function: Callable[[Task], Answer], tasks: Sequence[Task], workers: int = WORKERS,
                 ) -> dict[Task, Answer]:  # fmt: skip
    """Run each task in a process, a few at a time. Progress is written to stderr."""
    began_s, found = time.monotonic(), {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(function, task): task for task in tasks}
        for done in as_completed(waiting):
            task = waiting[done]
            found[task] = done.result()
            tell(f"  {len(found)}/{len(tasks)} {_told(task)}, {time.monotonic() - began_s:.0f} s")
    return {task: found[task] for task in tasks}


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _told(task: object) -> str:
    return " ".join(str(part) for part in task) if isinstance(task, tuple) else str(task)


def _columns(result: SimulationResult) -> Played:
    waits_us = [outcome.wait_us for outcome in result.outcomes]
    missing = sum(wait_us is None for wait_us in waits_us)
    if missing:
        raise ValueError(f"{missing} jobs never started")
    return Played(
        submitted_s=np.array([outcome.job.submitted_us for outcome in result.outcomes]) / US_PER_S,
        wait_s=np.array(waits_us, dtype=np.float64) / US_PER_S,
        run_s=np.array([outcome.run_us for outcome in result.outcomes]) / US_PER_S,
        late_h=np.array(list(result.late_us.values()), dtype=np.float64) / US_PER_H,
        passed_h=np.array(list(result.head_delay_us.values()), dtype=np.float64) / US_PER_H,
    )
