"""Jobs that wait are foretold anew: when more is known of their owner's runs, and when other quantiles count."""

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
"""Jobs of one owner that are foretold anew after a run: as many as in the simulator."""
BATCH = 200
"""Told at once, so that nobody waits for the rest."""
_WAITS = (JobState.PENDING, JobState.HELD)


class PredictionRefresh:
    """Asks by the thread that learns, and tells by a turn.

    Predictions are judged by what was said when a job came in (``run_forecasts``), which stays as it is. What is
    planned with and shown, the job's own forecast, is the new one. Jobs that were on their cards before keep theirs:
    it was made from that very run."""

    def __init__(self, context: SchedulerContext) -> None:
        self._context = context

    def post(self, item: Item) -> None:
        self._context.loop.post(item)

    def batches(self, owners: Collection[Owner] | None) -> Iterator[Item]:
        """What to do inside a turn, one part after the other. ``owners``: of these; None: of everybody, all."""
        rows = self._waiting(owners)
        for first in range(0, len(rows), BATCH):
            found = [(row, foretold) for row in rows[first : first + BATCH] if (foretold := self._anew(row))]
            if found:
                yield partial(self._tell, found)

    def _waiting(self, owners: Collection[Owner] | None) -> list[JobRow]:
        """Who waits longest first; those apart, for others or for their user, after those in the queue."""
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

    def _anew(self, row: JobRow) -> JobPrediction | None:
        """None: as it was."""
        try:
            foretold = self._context.forecast(self._context.jobs.get(row.id) or job_of(row))
        except Exception:
            _log.exception("a job could not be foretold anew", job=row.id)
            return None
        return None if forecast_record(foretold.forecast, foretold.run) == row.forecast else foretold

    def _tell(self, found: Sequence[tuple[JobRow, JobPrediction]]) -> None:
        unit = self._context.unit
        for before, foretold in found:
            row = unit.rows.get(before.id)
            if row is None or row.attempt != 0 or row.state not in _WAITS or row.core is not before.core:
                continue  # it went on, or is another job by now
            unit.change(row.id, forecast=forecast_record(foretold.forecast, foretold.run))
            self._context.driver.apply(unit.now_us, ports.RunTimePredicted(row.id, foretold.forecast))


def _is_among(taken: Counter[Owner], owner: Owner) -> bool:
    """Whether it is one of the first of its owner."""
    taken[owner] += 1
    return taken[owner] <= MAX_PER_OWNER
