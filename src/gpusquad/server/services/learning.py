"""Learning from runs that are over, off the path of decisions.

Every run that ends is put into a queue; a thread of its own takes it out, teaches the predictor, trains it when that is
due, and keeps what was learned in a file now and then. At start the same thread reads that file and learns what ended
since; where there is none that can be used it learns from the history in the store. Jobs are accepted meanwhile, and
foretold by what is known so far. Until the thread is started, everything is done at once by the caller: tests in
virtual time.
"""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from gpusquad.model.edge import job_from_dict
from gpusquad.model.prediction import How, PastRun
from gpusquad.server.services.foretelling import Foretelling
from gpusquad.server.services.models import Models
from gpusquad.store import run_forecasts
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.run_forecasts import BEFORE_ALL, PastRow, RunKey

MOST_HISTORY = 100_000
"""Runs of the past that a predictor is shown at most."""
CHUNK = 500
"""Runs read from the store at once."""
TRAIN_GROWTH = 1.5
"""While history is read, a predictor is trained again only when it knows so many times as many runs."""
SAVE_RUNS, SAVE_S = 200, 600.0
"""What was learned is kept after so many runs, or after so long."""
CLOSE_S = 10.0
_RETRY_S = 5.0
_log = structlog.get_logger("gpusquad.learning")


class Learning:
    """Teaches the predictor."""

    def __init__(self, foretelling: Foretelling, database: Database, models: Models | None = None) -> None:
        self._foretelling = foretelling
        self._database = database
        self._models = models
        self._queue: SimpleQueue[tuple[int, PastRun] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
        self._live: set[tuple[str, int]] | None = set()
        """Runs that ended since the start, which history may show too. None: history has been read."""
        self._last: RunKey = BEFORE_ALL
        self._unsaved = 0
        self._saved_s = time.monotonic()

    def start(self) -> None:
        """From here on nobody waits for learning. Begins with what is known from before."""
        self._thread.start()

    def learn(self, attempt: int, run: PastRun) -> None:
        """A run is over. From the scheduler's thread, before the end is on record."""
        live = self._live  # the other thread may be done with history just now
        if live is not None:
            live.add((run.job.id, attempt))
        if self._thread.ident is None:
            self._teach(attempt, run)
            self._train()
        else:
            self._queue.put((attempt, run))

    def recall(self) -> None:
        """What was learned before, by the file or from history. Never fails: at worst nothing is known."""
        try:
            self._load()
            while not self._closing.is_set():
                try:
                    return self._read_history()
                except StoreUnavailable as error:
                    _log.warning("history cannot be read now", error=str(error))
                    self._closing.wait(_RETRY_S)
        except Exception:
            _log.exception("history could not be learned from")
            self._live = None

    def close(self) -> None:
        """Keeps what was learned."""
        self._closing.set()
        if self._thread.ident is None:
            self._save()
        else:
            self._queue.put(None)
            self._thread.join(CLOSE_S)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self.recall()
        if self._live is not None:  # told to stop on the way: what came since is learned next time, in its order
            return self._save()
        while (item := self._next()) is not None:
            if item:
                self._teach(*item)
            if self._queue.empty():  # a burst is learned first
                self._train()
            if self._unsaved >= SAVE_RUNS or (self._unsaved and time.monotonic() - self._saved_s >= SAVE_S):
                self._save()
        self._save()

    def _next(self) -> tuple[int, PastRun] | tuple[()] | None:
        """Empty: nothing came for a while. None: the service stops."""
        try:
            return self._queue.get(timeout=SAVE_S)
        except Empty:
            return ()

    def _teach(self, attempt: int, run: PastRun) -> None:
        try:
            self._foretelling.learn(run)
        except Exception:
            _log.exception("a run could not be learned from", job=run.job.id)
        self._last = max(self._last, (run.ended_us, run.job.id, attempt))
        self._unsaved += 1

    def _train(self) -> None:
        try:
            self._foretelling.train()
        except Exception:
            _log.exception("the predictor could not be trained")

    # -- from before -----------------------------------------------------------------------------------------------

    def _load(self) -> None:
        kept = None if self._models is None else self._models.load()
        if kept is None:
            return
        with self._database.read() as connection:
            if not run_forecasts.is_known(connection, kept.last):
                _log.warning("what was learned belongs to another store; it is learned anew")
                return
        self._foretelling.use(kept.predictor)
        self._last = kept.last

    def _read_history(self) -> None:
        with self._database.read() as connection:
            after = max(self._last, run_forecasts.first_to_learn(connection, MOST_HISTORY))
        learned, train_at = 0, 1.0
        while not self._closing.is_set():
            with self._database.read() as connection:
                rows = run_forecasts.past_runs(connection, after, CHUNK)
            for row in rows:
                self._teach_past(row)
            learned += len(rows)
            if rows:
                after = rows[-1].key
            if learned >= train_at or len(rows) < CHUNK:
                train_at = TRAIN_GROWTH * learned
                self._train()
            if len(rows) < CHUNK:
                self._live = None
                return

    def _teach_past(self, row: PastRow) -> None:
        if self._live is not None and (row.job_id, row.attempt) in self._live:
            return  # it is in the queue
        try:
            run = past_run(row)
        except Exception as error:  # a job that this release does not understand any more
            _log.warning("a past run cannot be read", job=row.job_id, error=repr(error))
            return
        self._teach(row.attempt, run)

    def _save(self) -> None:
        if self._models is not None and self._unsaved and self._last != BEFORE_ALL:
            predictor: Any = self._foretelling.predictor
            self._models.save(predictor, self._last)
        self._unsaved, self._saved_s = 0, time.monotonic()


def past_run(row: PastRow) -> PastRun:
    """As a predictor takes it. What earlier attempts kept is known for a job's last one only."""
    kept_us = row.kept_us if row.is_last else 0
    return PastRun(job_from_dict(dict(row.core)), max(1, kept_us + row.ended_us - row.started_us), row.ended_us,
                   how_of(row.how), row.peak_memory_bytes, row.cpu_milli)  # fmt: skip


def how_of(how: str) -> How:
    """An attempt that waits apart for its next try has failed."""
    return "failed" if how == "held" else how  # type: ignore[return-value]
