"""Gradient-boosted trees for quantiles of the run time, retrained as history grows."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import exp
from typing import Any

import numpy as np

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.prediction import LEVELS, NOTHING_KNOWN_US, PastRun, Quantiles
from gpusquad.model.units import US_PER_S
from gpusquad.predict._bins import Floats
from gpusquad.predict._calibration import QuantileCalibration
from gpusquad.predict._owner_features import OwnerHistories, log_s
from gpusquad.predict._trees import Trees, flat
from gpusquad.predict.base import OnlinePredictor
from gpusquad.predict.recent import Recent
from gpusquad.registry import register

_GROWN = np.array([0.05, 0.2, 0.5, 0.8, 0.95])
"""Quantiles that have trees. The others are interpolated or extrapolated along the log odds."""
_GROWN_ODDS = np.log(_GROWN / (1 - _GROWN))
_MIN_NEW = 500
_NEW_RATIO = 0.25
_MAX_OPEN = 200_000
_OWN_LIMIT = 0.005
"""If the fraction of runs that exceed their estimate is smaller, no job is expected to exceed it (as in ``history``).
"""
_LONGEST = log_s(NOTHING_KNOWN_US)


@dataclass(frozen=True, slots=True)
class _OpenPrediction:
    """Features and prediction of a job that has not ended."""

    row: Floats
    values: tuple[int, ...] | None
    """At ``LEVELS``. None: predicted before there were trees."""


@register("predictor", "boosted")
@dataclass
class BoostedTrees(OnlinePredictor):
    """Boosted trees over the owner's earlier runs, calibrated. Needs scikit-learn."""

    keep: int = 30_000
    """Number of runs to train with, the latest ones."""
    trees: int = 100
    """For each quantile."""
    rate: float = 0.01
    """Learning rate of the calibration."""

    def __post_init__(self) -> None:
        if self.keep < _MIN_NEW or self.trees < 1:
            raise Invalid("predictor.boosted", f"needs at least keep={_MIN_NEW} and one tree")
        if not 0 <= self.rate <= 0.5:
            raise Invalid("predictor.boosted.rate", f"{self.rate} is not between 0 and 0.5")
        if find_spec("sklearn") is None:
            raise Invalid("predictor.boosted", "needs scikit-learn", 'pip install "gpusquad[predict]"')
        self._owners = OwnerHistories()
        self._calibration = QuantileCalibration(self.rate)
        self._recent = Recent()
        self._rows: deque[tuple[Floats, float]] = deque(maxlen=self.keep)
        self._new = 0
        self._open: OrderedDict[str, _OpenPrediction] = OrderedDict()
        self._past_estimate, self._with_estimate = 0, 0
        self._grown: Trees | None = None

    def predict(self, job: Job) -> Quantiles:
        row, grown = self._owners.row(job), self._grown
        self._owners.came(job)
        if grown is None:
            self._remember(job.id, _OpenPrediction(row, None))
            return _above_zero(self._recent.predict(job))
        values = _values(grown.answers(row), self._calibration.levels(job.tenant), self._most_us(job))
        self._remember(job.id, _OpenPrediction(row, values))
        return Quantiles(LEVELS, values, "boosted", 1.0 - exp(-self._owners.similar_run_count(job) / 4))

    def begin(self, job: Job, at_us: int) -> None:
        self._owners.begins(job, at_us)

    def learn(self, run: PastRun) -> None:
        prediction = self._open.pop(run.job.id, None)
        self._owners.stops(run.job)
        if prediction is not None and prediction.values is not None:
            self._calibration.learn(run.job.tenant, prediction.values, run.run_us, run.was_cut)
        row = self._owners.row(run.job) if prediction is None else prediction.row
        self._keep(run, row, prediction)
        self._recent.learn(run)
        if not run.was_cut:
            self._owners.ended(run.job, run.run_us, run.ended_us)

    def is_due(self) -> bool:
        return self._new >= max(_MIN_NEW, _NEW_RATIO * (len(self._rows) - self._new))

    def train(self) -> None:
        """Train in the background. Predictions use the old trees meanwhile."""
        rows = list(self._rows)
        self._new = 0
        if rows:
            self._grown = _grow(
                np.array([row for row, _ in rows]), np.array([length for _, length in rows]), self.trees
            )

    # dump and load are not overridden: training the trees again from history takes seconds.

    def _keep(self, run: PastRun, row: Floats, prediction: _OpenPrediction | None) -> None:
        """The run time to train with. A run that was cut would have lasted longer: as long as predicted, if that is
        more.
        """
        run_us = run.run_us
        if run.was_cut:
            if prediction is None or prediction.values is None:
                return
            run_us = max(run_us, prediction.values[LEVELS.index(0.5)])
        self._rows.append((row, log_s(run_us)))
        self._new += 1
        estimate_us = run.job.estimate_us
        if estimate_us is not None:
            self._with_estimate += 1
            self._past_estimate += run.run_us > estimate_us * 1.01

    def _most_us(self, job: Job) -> int:
        max_us = NOTHING_KNOWN_US if job.limit_us is None else min(job.limit_us, NOTHING_KNOWN_US)
        if job.estimate_us is not None and self._past_estimate < _OWN_LIMIT * self._with_estimate:
            max_us = min(max_us, job.estimate_us)
        return max(1, max_us)

    def _remember(self, job_id: str, prediction: _OpenPrediction) -> None:
        self._open[job_id] = prediction
        self._open.move_to_end(job_id)
        if len(self._open) > _MAX_OPEN:
            self._open.popitem(last=False)


def _values(answers: Floats, asked: Floats, max_us: int) -> tuple[int, ...]:
    """Run times at ``LEVELS``, from the logarithms at the trained levels, looked up at the requested levels."""
    lengths = np.maximum.accumulate(answers)
    odds = np.log(asked / (1 - asked))
    found = np.interp(odds, _GROWN_ODDS, lengths)
    for beyond, one, other in ((odds < _GROWN_ODDS[0], 0, 1), (odds > _GROWN_ODDS[-1], -1, -2)):
        slope = (lengths[one] - lengths[other]) / (_GROWN_ODDS[one] - _GROWN_ODDS[other])
        found = np.where(beyond, lengths[one] + slope * (odds - _GROWN_ODDS[one]), found)
    values_us = np.exp(np.clip(np.maximum.accumulate(found), 0.0, _LONGEST)) * US_PER_S
    return tuple(int(us) for us in np.minimum(values_us, max_us).tolist())


def _above_zero(found: Quantiles) -> Quantiles:
    return replace(found, values=tuple(max(1, value) for value in found.values))


def _grow(rows: Floats, lengths: Floats, trees: int) -> Trees:
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import, and optional

    how: dict[str, Any] = {"max_iter": trees, "learning_rate": 0.08, "max_leaf_nodes": 16, "min_samples_leaf": 20,
                           "early_stopping": False, "random_state": 0}  # fmt: skip
    models = [HistGradientBoostingRegressor(loss="quantile", quantile=float(q), **how) for q in _GROWN]
    return flat([model.fit(rows, lengths) for model in models])
