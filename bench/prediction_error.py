"""How accurate must predictions be? Predictions with a known artificial error, with gpusquad's two modes.

A prediction is the actual run time times ``bias * exp(sigma * N(0, 1))``, drawn once per job, with calibrated
quantiles. For comparison: EASY with user estimates, and gpusquad's own predictor.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import exp
from statistics import NormalDist
from typing import Any

from bench._logs import read_log
from bench._pages import draw, keep
from bench._play import Played, mode_facts, play, play_mode, side_by_side
from bench.claims import claim
from bench.predictive import FIFO, FREE, figures, mean, play_one
from gpusquad.model.prediction import LEVELS, QuantileLevels, Quantiles
from gpusquad.model.views import RunTimePrediction
from gpusquad.modes import load_mode
from gpusquad.sim.traces import TraceJob

NAME = "prediction-error"
SUMMARY = "slowdown and waits against how wrong predictions are, on two SP2 logs"
SLOW = True

LOGS = ("SDSC-SP2", "KTH-SP2")
SIGMAS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
BIASES = (0.5, 2.0, 4.0)
"""With sigma 0: wrong for sure, and sure of itself."""
SEED = 11
_SCORES = tuple(NormalDist().inv_cdf(level) for level in LEVELS)

Task = tuple[str, str, float, float]
"""Log, mode (or "easy"), sigma and bias; a sigma below 0: no error is put in, the mode's own predictor speaks."""


@dataclass(frozen=True)
class ErroneousPredictor:
    """Predicts the actual run time with an artificial error."""

    uses: QuantileLevels
    sigma: float
    bias: float = 1.0
    seed: int = SEED

    def quantiles(self, trace: TraceJob) -> Quantiles:
        drawn = random.Random(f"{self.seed} {trace.job.id}").gauss(0.0, 1.0)
        mid_us = trace.run_us * self.bias * exp(self.sigma * drawn)
        values = tuple(max(1, round(mid_us * exp(self.sigma * score))) for score in _SCORES)
        return Quantiles(LEVELS, values, "spoiled")

    def __call__(self, trace: TraceJob) -> RunTimePrediction:
        return self.uses.prediction(self.quantiles(trace))


def run() -> list[dict]:
    errors = [*((sigma, 1.0) for sigma in SIGMAS), *((0.0, bias) for bias in BIASES)]
    tasks: list[Task] = [(log, mode, *error) for log in LOGS for mode in (FREE, FIFO) for error in errors]
    tasks += [(log, mode, -1.0, 1.0) for log in LOGS for mode in (FREE, FIFO, "easy")]
    played = side_by_side(play_wrong, tasks)
    runs = [{"log": t[0], "mode": t[1], "sigma": t[2], "bias": t[3], **figures(one)} for t, one in played.items()]
    keep(NAME, {"modes": mode_facts(FIFO, FREE), "runs": runs})
    draw(NAME, "How wrong may predictions be?", panels(played))
    return [one for task in tasks for one in claims(task, played)]


def play_wrong(task: Task) -> Played:
    log_name, mode, sigma, bias = task
    if mode == "easy":
        return play_one((log_name, "easy user"))
    log, chosen = read_log(log_name), load_mode(mode)
    if sigma < 0:
        return play_mode(log, mode)
    return play(log.cluster, log.jobs, chosen.policies(), ErroneousPredictor(chosen.uses, sigma, bias))


def claims(task: Task, played: dict[Task, Played]) -> list[dict]:
    """Told, not judged. The baseline is EASY with users' estimates."""
    log, mode, sigma, bias = task
    easy, one = played[log, "easy", -1.0, 1.0], played[task]
    what = "users' estimates" if mode == "easy" else "as predicted" if sigma < 0 else f"sigma {sigma:g}, bias {bias:g}"
    label = f"{log} {mode}, {what}"
    return [
        claim(f"{label}: mean slowdown", one.mean_slowdown, "", "lower", baseline=easy.mean_slowdown),
        claim(f"{label}: longest wait", one.max_wait_h, "h", "lower", baseline=easy.max_wait_h),
        claim(f"{label}: first in line later than had nobody slipped in", mean(one.passed_h), "h", "lower",
              baseline=mean(easy.passed_h)),
    ]  # fmt: skip


MEASURES = {
    "mean slowdown": lambda one: one.mean_slowdown,
    "longest wait, h": lambda one: one.max_wait_h,
    "first in line later than had nobody slipped in, h": lambda one: mean(one.passed_h),
}


def panels(played: dict[Task, Played]) -> list[dict[str, Any]]:
    """A row a measure, a column a log: over sigma; then over the bias."""
    made = []
    for measure, of in MEASURES.items():
        for log in LOGS:
            lines = {mode: [(s, of(played[log, mode, s, 1.0])) for s in SIGMAS] for mode in (FIFO, FREE)}
            levels = {f"{mode}, as predicted": of(played[log, mode, -1.0, 1.0]) for mode in (FIFO, FREE)}
            levels["EASY, users' estimates"] = of(played[log, "easy", -1.0, 1.0])
            made.append({"title": log, "x": "sigma", "y": measure, "lines": lines, "levels": levels})
    for log in LOGS:
        biases = sorted((*BIASES, 1.0))
        lines = {mode: [(b, played[log, mode, 0.0, b].mean_slowdown) for b in biases] for mode in (FIFO, FREE)}
        made.append({"title": log, "x": "bias, sigma 0", "y": "mean slowdown", "lines": lines})
    return made
