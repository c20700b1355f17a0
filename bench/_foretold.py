"""Every job of a log foretold when it is submitted, by a predictor that knows what had ended by then.

Starts and ends are those of plain EASY, which stand in the file: nothing has to be scheduled, so this is quick, and all
predictors are told the same.
"""

from __future__ import annotations

import heapq

import numpy as np

from bench._logs import Floats, Log
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Predictor
from gpusquad.model.units import US_PER_S

TOLD = (0.5, 0.9, 0.99)
_START, _END = 0, 1


def foretell(log: Log, predictor: Predictor) -> Floats:
    """A row a job, its quantiles at ``TOLD`` in seconds; NaN where nothing was known."""
    rows = np.full((len(log.jobs), len(TOLD)), np.nan)
    coming: list[tuple[int, int, int]] = []
    for index, trace in enumerate(log.jobs):
        _catch_up(log, predictor, coming, trace.job.submitted_us)
        found = predictor.predict(trace.job)
        if found.values[0] < NOTHING_KNOWN_US:
            rows[index] = [found.at(level) / US_PER_S for level in TOLD]
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
