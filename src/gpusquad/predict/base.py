"""Common base of most predictors."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun
from gpusquad.predict.replay import MAX_PREDICTED, in_original_order


class OnlinePredictor:
    """Learns from one run at a time and has no slow part. Other predictors override what differs."""

    format: int = 1
    """Version of the format of ``dump``. A dump of another version is discarded, and the predictor learns again from
    history.
    """

    def predict(self, job: Job) -> Any:
        raise NotImplementedError

    def begin(self, job: Job, at_us: int) -> None:
        pass

    def learn(self, run: PastRun) -> None:
        raise NotImplementedError

    def fit(self, history: Iterable[PastRun]) -> None:
        """Learn past runs as if they happened now. The newest are predicted first, to learn from the errors."""
        newest: deque[PastRun] = deque()
        for run in history:
            newest.append(run)
            if len(newest) > MAX_PREDICTED:
                self._take(newest.popleft())
        runs = list(newest)  # indexing into the middle of a deque is slow
        for what, index, at_us in in_original_order(runs):
            run = runs[index]
            if what == "came":
                self.predict(run.job)
            elif what == "begins":
                self.begin(run.job, at_us)
            else:
                self._take(run)

    def _take(self, run: PastRun) -> None:
        self.learn(run)
        if self.is_due():
            self.train()

    def is_due(self) -> bool:
        return False

    def train(self) -> None:
        pass

    def dump(self) -> dict[str, Any]:
        """The whole learned state, as plain JSON."""
        raise NotImplementedError

    def load(self, dumped: dict[str, Any]) -> None:
        """Load a ``dump`` of this format. Raises ValueError, KeyError or TypeError for anything else."""
        raise NotImplementedError
