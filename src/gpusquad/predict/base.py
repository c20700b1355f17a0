"""What most predictors have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpusquad.model.job import Job
from gpusquad.model.prediction import PastRun


class Online:
    """Learns from one run at a time and has no slow part. Others override what they do otherwise."""

    format: int = 1
    """Of what ``dump`` writes; another number is not loaded but learned anew from history."""

    def begin(self, job: Job, at_us: int) -> None:
        pass

    def learn(self, run: PastRun) -> None:
        raise NotImplementedError

    def fit(self, history: Iterable[PastRun]) -> None:
        for run in history:
            self.learn(run)
            if self.is_due():
                self.train()

    def is_due(self) -> bool:
        return False

    def train(self) -> None:
        pass

    def dump(self) -> dict[str, Any]:
        """All that was learned, as plain JSON."""
        raise NotImplementedError

    def load(self, dumped: dict[str, Any]) -> None:
        """What ``dump`` of this format wrote; raises ValueError, KeyError or TypeError for anything else."""
        raise NotImplementedError
