"""A trivial predictor, and a wrapper that checks another predictor."""

from __future__ import annotations

from bisect import insort
from collections import Counter, defaultdict

from gpusquad.model.job import Job
from gpusquad.model.prediction import NOTHING_KNOWN_US, PastRun, Predictor, Quantiles, certain
from gpusquad.predict.base import OnlinePredictor


class RunningMedian(OnlinePredictor):
    """The tenant's median run time so far."""

    def __init__(self) -> None:
        self._runs_us: defaultdict[str, list[int]] = defaultdict(list)

    def predict(self, job: Job) -> Quantiles:
        runs_us = self._runs_us.get(job.tenant)
        return certain(runs_us[len(runs_us) // 2], "history") if runs_us else certain(NOTHING_KNOWN_US, "none")

    def learn(self, run: PastRun) -> None:
        insort(self._runs_us[run.job.tenant], run.run_us)


class CausalityCheck(OnlinePredictor):
    """Forwards all calls to a predictor, and checks that it learns of no end before that end."""

    def __init__(self, predictor: Predictor) -> None:
        self._predictor = predictor
        self._newest_us = 0
        self._seen: set[str] = set()
        self.sources: Counter[str] = Counter()
        self.too_early = 0
        """Number of first predictions made after the predictor learned of a later end."""

    def predict(self, job: Job) -> Quantiles:
        first = job.id not in self._seen  # a later prediction of the same job may use more knowledge
        self.too_early += first and self._newest_us > job.submitted_us
        self._seen.add(job.id)
        found = self._predictor.predict(job)
        self.sources[found.source] += 1
        return found

    def begin(self, job: Job, at_us: int) -> None:
        self._predictor.begin(job, at_us)

    def learn(self, run: PastRun) -> None:
        self._newest_us = max(self._newest_us, run.ended_us)
        self._predictor.learn(run)

    def is_due(self) -> bool:
        return self._predictor.is_due()

    def train(self) -> None:
        self._predictor.train()
