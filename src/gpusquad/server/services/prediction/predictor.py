"""How long jobs will run. The predictor is asked here and nowhere else, from any thread, and without I/O."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import structlog

from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import UNKNOWN
from gpusquad.model.job import Job
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Predictor, QuantileLevels, Quantiles, certain
from gpusquad.model.views import RunTimePrediction

_log = structlog.get_logger("gpusquad.foretelling")


@dataclass(frozen=True, slots=True)
class JobPrediction:
    """A predicted run time."""

    forecast: RunTimePrediction
    """As the core takes it."""
    run: Quantiles | None
    """None: nothing is known."""


class LockedPredictor:
    """A predictor, and the lock between those who ask it and whoever teaches it."""

    def __init__(self, predictor: Predictor, uses: QuantileLevels | None = None) -> None:
        self._predictor = predictor
        self.uses = uses or QuantileLevels()
        self._lock = threading.Lock()
        """Held for the length of one ``predict`` or ``learn``; never over ``train``, which may take minutes."""

    @property
    def predictor(self) -> Predictor:
        return self._predictor

    def predict(self, job: Job, done_us: int = 0) -> JobPrediction:
        """How long the job will be on its cards; ``done_us`` of it need not be done again."""
        run = _within(self._predict(job), job.limit_us, self.uses.shadow)
        if run is None:
            return JobPrediction(UNKNOWN, None)
        if done_us:
            run = run.less(done_us)
        forecast = self.uses.prediction(run)
        return JobPrediction(forecast if job.limit_us is None else forecast.within(job.limit_us), run)

    def begin(self, job: Job, at_us: int) -> None:
        """It is on its cards."""
        with self._lock:
            self._predictor.begin(job, at_us)

    def learn(self, run: PastRun) -> None:
        """By one thread alone, the one that also trains."""
        with self._lock:
            self._predictor.learn(run)

    def train(self) -> None:
        """The slow part; whoever asks meanwhile is answered by what was known before."""
        if self._predictor.is_due():
            self._predictor.train()

    def use(self, predictor: Predictor) -> None:
        """Another one from now on."""
        with self._lock:
            self._predictor = predictor

    def _predict(self, job: Job) -> Quantiles:
        """A predictor that fails must not keep anybody from submitting: the user's word stands in for it."""
        try:
            with self._lock:
                return self._predictor.predict(job)
        except Exception:
            _log.exception("the predictor failed", job=job.id)
            if job.estimate_us is None:
                return certain(NOTHING_KNOWN_US, "none")
            return certain(job.estimate_us, "user")


def _within(run: Quantiles, limit_us: int | None, middle: float) -> Quantiles | None:
    """Nothing lasts longer than its limit, and a limit is a prediction where there is no better one."""
    if limit_us is not None:
        return certain(limit_us, "limit") if run.at(middle) > limit_us else run.capped(limit_us)
    return None if run.at(middle) >= NEVER_US else run
