"""A predictor that learns as simulated jobs end: a prediction uses only what was known at that time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Any

from gpusquad import registry
from gpusquad.core.state.state import UNKNOWN
from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun, Predictor, QuantileLevels, Quantiles, within_limit
from gpusquad.model.views import RunTimePrediction
from gpusquad.sim.traces import TraceJob

MAX_ANEW = 40
"""Largest number of an owner's pending jobs that are predicted again when one of its runs ends, longest waiting first.
"""


class PredictorFeed:
    """Connects a predictor to a scenario."""

    def __init__(self, predictor: str | Predictor, uses: QuantileLevels | None = None) -> None:
        self.predictor: Predictor = registry.create("predictor", predictor) if isinstance(predictor, str) else predictor
        self.uses = uses or QuantileLevels()
        self.predictions: dict[str, Quantiles] = {}
        """Predictions by job, as made at submission, for comparison with the actual run times."""
        self._waiting: defaultdict[tuple[str, str], dict[str, TraceJob]] = defaultdict(dict)
        """Owner -> pending jobs."""

    def parts(self) -> dict[str, Any]:
        """Arguments of a scenario."""
        return {"forecast": self.forecast, "begin": self.begin, "learn": self.learn, "anew": self.anew,
                "again": self.again}  # fmt: skip

    def forecast(self, trace: TraceJob) -> RunTimePrediction:
        self._waiting[trace.job.tenant, trace.job.user][trace.job.id] = trace
        found = self.predictor.predict(trace.job)
        if found.source != UNKNOWN.source:
            self.predictions.setdefault(trace.job.id, found)
        run = within_limit(found, trace.job.limit_us, self.uses.shadow)
        return UNKNOWN if run is None else self.uses.forecast(run, trace.job.limit_us)

    def anew(self, run: PastRun) -> Iterator[tuple[str, RunTimePrediction]]:
        """New predictions of the owner's pending jobs."""
        waiting = self._waiting.get((run.job.tenant, run.job.user), {})
        for trace in list(islice(waiting.values(), MAX_ANEW)):
            yield trace.job.id, self.forecast(trace)

    def again(self, job: Job) -> None:
        """The service predicts each attempt, to compare it with the actual run time. The core derives the prediction
        it plans with from that of the first attempt."""
        self.predictor.predict(job)

    def begin(self, job: Job, at_us: int) -> None:
        self._waiting[job.tenant, job.user].pop(job.id, None)
        self.predictor.begin(job, at_us)

    def learn(self, run: PastRun) -> None:
        self.predictor.learn(run)
        if self.predictor.is_due():
            self.predictor.train()
