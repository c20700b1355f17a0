"""Predicts every job of a log at submission, with a predictor that knows only the runs that ended before.

Starts and ends are those of plain EASY in the file. Nothing has to be scheduled, so this is quick, and all predictors
see the same events.
"""

from __future__ import annotations

import heapq

import numpy as np

from bench._logs import Floats, Log
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Predictor
from gpusquad.model.units import US_PER_S

PREDICTED_LEVELS = (0.5, 0.9, 0.99)
_START, _END = 0, 1


def predict_log(log: Log, predictor: Predictor) -> Floats:
    """One row per job, with its quantiles at ``PREDICTED_LEVELS`` in seconds. NaN: nothing was known."""
    rows = np.full((len(log.jobs), len(PREDICTED_LEVELS)), np.nan)
    coming: list[tuple[int, int, int]] = []
    for index, trace in enumerate(log.jobs):
        _catch_up(log, predictor, coming, trace.job.submitted_us)
        found = predictor.predict(trace.job)
        if found.values[0] < NOTHING_KNOWN_US:
            rows[index] = [found.at(level) / US_PER_S for level in PREDICTED_LEVELS]
        start_us = trace.job.submitted_us + round(float(log.wait_s["easy"][index]) * US_PER_S)
        heapq.heappush(coming, (start_us, _START, index))
        heapq.heappush(coming, (start_us + trace.run_us, _END, index))
    return rows


def _catch_up(log: Log, predictor: Predictor, coming: list[tuple[int, int, int]], now_us: int) -> None:
    while coming and coming[0][0] <= now_us:
        at_us, what, index = heapq.heappop(coming)
        trace = log.jobs[index]
        if what == _START:
            predictor.begin(trace.job, at_us)
            continue
        predictor.learn(PastRun(trace.job, trace.run_us, at_us, trace.outcome))
        if predictor.is_due():
            predictor.train()
