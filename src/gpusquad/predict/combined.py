"""Combines all sources, weighted by how well each predicted similar jobs, and calibrates the result."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import numpy as np

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.prediction import LEVELS, PastRun, Quantiles, mean
from gpusquad.predict._bins import Floats, bin_of, quantiles, spread
from gpusquad.predict._calibration import QuantileCalibration
from gpusquad.predict._estimate_record import EstimateRecord
from gpusquad.predict._hit_rate import HitRate
from gpusquad.predict._overrun_correction import OverrunCorrection
from gpusquad.predict.base import OnlinePredictor
from gpusquad.predict.history import History
from gpusquad.predict.offline_estimate import expected_run
from gpusquad.registry import register

_ENOUGH = 10
"""With fewer runs of the tenant that ended by themselves, the user's estimate is the best source, whatever the runs of
others say. Runs that were cut short do not show how long a job takes."""
_SCORE_DECAY = 0.98
"""Weight that a source's score keeps when the next run of the tenant ends."""
_FLOOR = 1e-3
_MAX_OPEN = 200_000
_MAX_TENANTS = 10_000
_MIDDLE = LEVELS.index(0.5)


@dataclass(frozen=True, slots=True)
class _OpenPrediction:
    """The prediction of a job that has not ended."""

    values: tuple[int, ...]
    """At ``LEVELS``, before the overrun correction. Otherwise the calibration would undo the correction."""
    parts: tuple[tuple[str, Floats], ...]


@register("predictor", "combined")
@dataclass
class CombinedPredictor(OnlinePredictor):
    """The best source for similar jobs so far: past runs, or what the job file expects. Calibrated."""

    rate: float = 0.01
    """Learning rate of the calibration."""
    honest: bool = True
    """Whether to correct predictions of owners whose card time far exceeds them, by card time instead of by runs."""

    format = 4

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 0.5:
            raise Invalid("predictor.combined.rate", f"{self.rate} is not between 0 and 0.5")
        self._history = History()
        self._calibration = QuantileCalibration(self.rate)
        self._overrun_correction = OverrunCorrection()
        self._estimates = EstimateRecord()
        self._hit_rate = HitRate()
        self._runs: OrderedDict[str, int] = OrderedDict()
        """Tenant -> number of its runs that ended by themselves, up to ``_ENOUGH``."""
        self._scores: OrderedDict[str, dict[str, float]] = OrderedDict()
        """Tenant -> source -> decaying sum of log likelihoods."""
        self._open: OrderedDict[str, _OpenPrediction] = OrderedDict()

    def predict(self, job: Job) -> Quantiles:
        parts = self._parts(job)
        if not parts:
            assert job.estimate_us is not None
            return self._estimates.predict(job.tenant, job.estimate_us)
        weights = self.weights(job.tenant, [source for source, _, _ in parts])
        mixed = np.zeros_like(parts[0][1])
        for weight, (_, part, _) in zip(weights, parts, strict=True):
            mixed += weight * part
        best = max(range(len(parts)), key=lambda index: weights[index] * (0.1 + parts[index][2]))
        asked, max_us = self._calibration.levels(job.tenant), self._history.max_us(job)
        confidence = min(parts[best][2], self._hit_rate.of(job.tenant))
        result = quantiles(mixed, parts[best][0], confidence, max_us, asked=asked)
        self._remember(job.id, _OpenPrediction(result.values[: len(LEVELS)], _to_score(parts)))
        corrected = self._overrun_correction.corrected(job, mixed) if self.honest else None
        if corrected is None:
            return result
        adjusted = quantiles(corrected, result.source, result.confidence, max_us, asked=asked)
        # The correction decides which values to use for single jobs. It does not change the total work of all jobs.
        return replace(adjusted, mean=mean(result))

    def begin(self, job: Job, at_us: int) -> None:
        self._history.begin(job, at_us)

    def learn(self, run: PastRun) -> None:
        prediction = self._open.pop(run.job.id, None)
        if prediction is not None:
            self._calibration.learn(run.job.tenant, prediction.values, run.run_us, run.was_cut)
            self._overrun_correction.learn(run, prediction.values[_MIDDLE])
            self._hit_rate.learn(run, prediction.values[_MIDDLE])
            self._score(run, prediction)
        self._estimates.learn(run)
        if not run.was_cut:
            self._count(run.job.tenant)
        self._history.learn(run)

    def weights(self, tenant: str, sources: Iterable[str]) -> list[float]:
        """The weights of the sources for a tenant, in proportion to the likelihood of its runs under each."""
        scores = self._scores.get(tenant, {})
        logs = [scores.get(source, 0.0) for source in sources]
        odds = [exp(max(-50.0, value - max(logs))) for value in logs]
        return [value / sum(odds) for value in odds]

    # -- sources ---------------------------------------------------------------------------------------------------

    def _parts(self, job: Job) -> list[tuple[str, Floats, float]]:
        """Each source, its distribution over the bins, and its confidence."""
        parts = []
        if job.estimate_us is None or self._runs.get(job.tenant, 0) >= _ENOUGH:
            part, source, confidence = self._history.distribution(job)
            parts.append((source, part, confidence))
        expected = expected_run(job)
        if expected is not None:
            parts.append((expected.source, spread(expected), expected.confidence))
        return parts

    def _count(self, tenant: str) -> None:
        self._runs[tenant] = min(_ENOUGH, self._runs.pop(tenant, 0) + 1)
        if len(self._runs) > _MAX_TENANTS:
            self._runs.popitem(last=False)

    def _score(self, run: PastRun, prediction: _OpenPrediction) -> None:
        if len(prediction.parts) < 2:
            return
        scores = self._scores.pop(run.job.tenant, {})
        bin_ = bin_of(run.run_us)
        for source, part in prediction.parts:
            found = part[bin_:].sum() if run.was_cut else part[bin_]
            scores[source] = _SCORE_DECAY * scores.get(source, 0.0) + log(max(float(found), _FLOOR))
        self._scores[run.job.tenant] = scores
        if len(self._scores) > _MAX_TENANTS:
            self._scores.popitem(last=False)

    def _remember(self, job_id: str, prediction: _OpenPrediction) -> None:
        self._open[job_id] = prediction
        self._open.move_to_end(job_id)
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)

    # -- serialisation ---------------------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Dump the state without open predictions: runs that end later are learned by history only."""
        scores = [[tenant, scores] for tenant, scores in self._scores.items()]
        return {"levels": list(LEVELS), "history": self._history.dump(), "calibration": self._calibration.dump(),
                "honesty": self._overrun_correction.dump(), "scores": scores, "estimates": self._estimates.dump(),
                "hit_rate": self._hit_rate.dump(), "runs": list(self._runs.items())}  # fmt: skip

    def load(self, dumped: dict[str, Any]) -> None:
        if tuple(dumped["levels"]) != LEVELS:
            raise ValueError("written for other levels")
        self.__post_init__()
        self._history.load(dumped["history"])
        self._calibration.load(dumped["calibration"])
        self._overrun_correction.load(dumped["honesty"])
        self._estimates.load(dumped["estimates"])
        self._hit_rate.load(dumped["hit_rate"])
        self._runs.update((str(tenant), int(runs)) for tenant, runs in dumped["runs"][-_MAX_TENANTS:])
        for tenant, scores in dumped["scores"]:
            self._scores[str(tenant)] = {str(source): float(value) for source, value in scores.items()}


def _to_score(parts: list[tuple[str, Floats, float]]) -> tuple[tuple[str, Floats], ...]:
    """A single source needs no comparison, so its prediction need not be kept."""
    return tuple((source, part) for source, part, _ in parts) if len(parts) > 1 else ()
