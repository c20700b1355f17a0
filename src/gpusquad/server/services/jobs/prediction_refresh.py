"""Predicts pending jobs again: when the predictor learned from their owner's runs, and when other quantiles are
used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import partial

import structlog

from gpusquad.core import ports
from gpusquad.core.transitions import JobState
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.prediction.predictor import JobPrediction
from gpusquad.server.services.prediction.training import Owner
from gpusquad.server.services.runtime.loop import Item
from gpusquad.server.services.runtime.records import forecast_record, job_of
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.learning")

MAX_PER_OWNER = 40
"""Jobs of one owner to predict again after a run; the simulator uses the same number."""
BATCH = 200
"""Jobs per pass, so that other items need not wait for all of them."""
_WAITS = (JobState.PENDING, JobState.HELD)


class PredictionRefresh:
    """Predicts in the training thread and applies the result inside a pass.

    Accuracy is measured by the prediction made at submission (``run_forecasts``), which does not change. The job's own
    forecast, used for planning and shown, is the new one. Jobs with an earlier attempt keep theirs, because it was made
    from that attempt.
    """

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context

    def post(self, item: Item) -> None:
        self._context.loop.post(item)

    def batches(self, owners: Collection[Owner] | None) -> Iterator[Item]:
        """Items to run inside a pass, one batch each. ``owners``: only their jobs. None: all jobs."""
        rows = self._waiting(owners)
        for first in range(0, len(rows), BATCH):
            found = [
                (row, prediction) for row in rows[first : first + BATCH] if (prediction := self._predict_again(row))
            ]
            if found:
                yield partial(self._apply, found)

    def _waiting(self, owners: Collection[Owner] | None) -> list[JobRow]:
        """Longest pending first; held jobs after those in the queue."""
        rows = [
            row
            for row in list(self._context.rows.values())
            if row.attempt == 0 and row.state in _WAITS and (owners is None or (row.tenant, row.user) in owners)
        ]
        rows.sort(key=lambda row: (row.state != JobState.PENDING, row.submitted_us, row.sequence))
        if owners is None:
            return rows
        taken: Counter[Owner] = Counter()
        return [row for row in rows if _is_among(taken, (row.tenant, row.user))]

    def _predict_again(self, row: JobRow) -> JobPrediction | None:
        """None: unchanged."""
        try:
            prediction = self._context.forecast(self._context.jobs.get(row.id) or job_of(row))
        except Exception:
            _log.exception("job not predicted again", job=row.id)
            return None
        return None if forecast_record(prediction.forecast, prediction.run) == row.forecast else prediction

    def _apply(self, found: Sequence[tuple[JobRow, JobPrediction]]) -> None:
        unit = self._context.unit
        for before, prediction in found:
            row = unit.rows.get(before.id)
            if row is None or row.attempt != 0 or row.state not in _WAITS or row.core is not before.core:
                continue  # it started or changed meanwhile
            unit.change(row.id, forecast=forecast_record(prediction.forecast, prediction.run))
            self._context.driver.apply(unit.now_us, ports.RunTimePredicted(row.id, prediction.forecast))


def _is_among(taken: Counter[Owner], owner: Owner) -> bool:
    """Whether it is among the first of its owner."""
    taken[owner] += 1
    return taken[owner] <= MAX_PER_OWNER
