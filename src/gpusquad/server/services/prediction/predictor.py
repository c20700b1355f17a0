"""Run-time predictions of jobs. The only caller of the predictor, from any thread, without I/O."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import structlog

from gpusquad.core.state.state import UNKNOWN
from gpusquad.model.job import Job
from gpusquad.model.prediction import (
    NOTHING_KNOWN_US,
    PastRun,
    Predictor,
    QuantileLevels,
    Quantiles,
    certain,
    within_limit,
)
from gpusquad.model.views import RunTimePrediction

_log = structlog.get_logger("gpusquad.foretelling")


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """A predicted run time."""

    forecast: RunTimePrediction
    """In the core's form."""
    run: Quantiles | None
    """None: unknown."""


class LockedPredictor:
    """A predictor with the lock between queries and training."""

    def __init__(self, predictor: Predictor, uses: QuantileLevels | None = None) -> None:
        self._predictor = predictor
        self.uses = uses or QuantileLevels()
        self._lock = threading.Lock()
        """Held for one ``predict`` or ``learn``; never for ``train``, which can take minutes."""

    @property
    def predictor(self) -> Predictor:
        return self._predictor

    def predict(self, job: Job, done_us: int = 0) -> JobPrediction:
        """Predict the time on cards. ``done_us`` of it need not be repeated."""
        run = within_limit(self._predict(job), job.limit_us, self.uses.shadow)
        if run is None:
            return JobPrediction(UNKNOWN, None)
        if done_us:
            run = run.less(done_us)
        return JobPrediction(self.uses.forecast(run, job.limit_us), run)

    def begin(self, job: Job, at_us: int) -> None:
        """The job has started."""
        with self._lock:
            self._predictor.begin(job, at_us)

    def learn(self, run: PastRun) -> None:
        """Called by the training thread only."""
        with self._lock:
            self._predictor.learn(run)

    def train(self) -> None:
        """The slow part. Predictions meanwhile use the old model."""
        if self._predictor.is_due():
            self._predictor.train()

    def use(self, predictor: Predictor) -> None:
        """Replace the predictor."""
        with self._lock:
            self._predictor = predictor

    def _predict(self, job: Job) -> Quantiles:
        """If the predictor fails, the user's estimate is used, so that submissions never fail with it."""
        try:
            with self._lock:
                return self._predictor.predict(job)
        except Exception:
            _log.exception("predictor failed", job=job.id)
            if job.estimate_us is None:
                return certain(NOTHING_KNOWN_US, "none")
            return certain(job.estimate_us, "user")
