"""Trains the predictor with ended runs, off the decision path.

Every ended run enters a queue. A training thread takes it out, lets the predictor learn and train when due, has pending
jobs predicted again, and saves the predictor to a file at intervals. At start the thread loads that file and learns
what ended since; without a usable file it learns from the history in the store. Jobs are accepted meanwhile and
predicted with what is known. Until the thread is started, the caller does all work: tests in virtual time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol

import structlog

from gpusquad.model.codec import job_from_dict
from gpusquad.model.prediction import How, PastRun
from gpusquad.predict.replay import MAX_PREDICTED, in_original_order
from gpusquad.server.services.prediction.predictor import LockedPredictor
from gpusquad.server.services.prediction.predictor_files import PredictorFiles
from gpusquad.server.services.runtime.loop import Item
from gpusquad.store import run_forecasts
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.run_forecasts import BEFORE_ALL, PastRow, RunKey

MAX_HISTORY = 100_000
"""Past runs that a predictor learns at most."""
CHUNK = 500
"""Runs read from the store at once."""
TRAIN_GROWTH = 1.5
"""While history is read, the predictor is trained again when it knows this many times as many runs."""
REFRESH_S = 5.0
"""Interval at which pending jobs are predicted again while runs end continually."""
SAVE_RUNS, SAVE_S = 200, 600.0
"""The predictor is saved after this many runs, or after this time."""
CLOSE_S = 10.0
_RETRY_S = 5.0
_log = structlog.get_logger("gpusquad.learning")


Owner = tuple[str, str]
"""Tenant and user."""


class FinishedRun(NamedTuple):
    """An ended run."""

    attempt: int
    run: PastRun


class RefreshesPredictions(Protocol):
    """Predicts pending jobs again."""

    def batches(self, owners: Collection[Owner] | None) -> Iterator[Item]:
        """Items to run inside a pass. None: all owners."""
        ...

    def post(self, item: Item) -> None: ...


class PredictorTraining:
    """Trains the predictor."""

    def __init__(self, predictor: LockedPredictor, database: Database, models: PredictorFiles | None = None) -> None:
        self._predictor = predictor
        self._database = database
        self._models = models
        self.prediction_refresh: RefreshesPredictions | None = None
        self._due_owners: set[Owner] | None = set()
        """Owners whose pending jobs must be predicted again. None: all."""
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="learning", daemon=True)
        self._live: set[tuple[str, int]] | None = set()
        """Runs that ended since the start, which history may contain too. None: history has been read."""
        self._last: RunKey = BEFORE_ALL
        self._past, self._trained = 0, 0
        """Runs learned from history, and their number at the last training."""
        self._unsaved = 0
        self._saved_s = self._refreshed_s = time.monotonic()

    def start(self) -> None:
        """Start the training thread, which first loads what is stored."""
        self._thread.start()

    def learn(self, attempt: int, run: PastRun) -> None:
        """Learn an ended run. Called by the scheduler's thread before the end is stored."""
        live = self._live  # the training thread may have just finished reading history
        if live is not None:
            live.add((run.job.id, attempt))
        self._do(partial(self._learn, attempt, run))

    def refresh_predictions(self) -> None:
        """Predict all pending jobs again, because other quantiles are used. Called by the scheduler's thread."""
        self._do(self._mark_all_due)

    def load_history(self) -> None:
        """Load the predictor from its file or train it from history. Never fails: at worst nothing is known."""
        try:
            while not self._closing.is_set():
                try:
                    self._load()
                    return self._read_history()
                except StoreUnavailable as error:
                    _log.warning("history not readable now", error=str(error))
                    self._closing.wait(_RETRY_S)
        except Exception:
            _log.exception("predictor not trained from history")
            self._live = None

    def close(self) -> None:
        """Save the predictor."""
        self._closing.set()
        if self._thread.ident is None:
            self._save()
        else:
            self._queue.put(None)
            self._thread.join(CLOSE_S)

    def _do(self, work: Callable[[], None]) -> None:
        if self._thread.ident is not None:
            return self._queue.put(work)
        work()
        self._train()
        self._refresh(lambda item: item())  # in the current pass

    # -- the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        self.load_history()
        if self._live is not None:  # stopped while reading history: later runs are learned at the next start, in order
            return self._save()
        # Pending jobs were predicted before the stop, perhaps by another mode or predictor, or from fewer runs.
        self._mark_all_due()
        self._refresh(self._post)
        while (work := self._next()) is not None:
            work()
            if self._queue.empty() or time.monotonic() - self._refreshed_s >= REFRESH_S:  # a burst is learned first
                self._train()
                self._refresh(self._post)
            if self._unsaved >= SAVE_RUNS or (self._unsaved and time.monotonic() - self._saved_s >= SAVE_S):
                self._save()
        self._save()

    def _next(self) -> Callable[[], None] | None:
        """None: the service is stopping."""
        try:
            return self._queue.get(timeout=SAVE_S)
        except Empty:
            return _nothing  # no run ended for a while

    def _learn(self, attempt: int, run: PastRun) -> None:
        self._learn_run(attempt, run)
        if self._due_owners is not None:
            self._due_owners.add((run.job.tenant, run.job.user))

    def _mark_all_due(self) -> None:
        self._due_owners = None

    def _refresh(self, submit: Callable[[Item], object]) -> None:
        owners, self._due_owners = self._due_owners, set()
        self._refreshed_s = time.monotonic()
        if self.prediction_refresh is None or owners == set():
            return
        try:
            for item in self.prediction_refresh.batches(owners):
                submit(item)
                if self._closing.is_set():
                    return
        except Exception:
            _log.exception("pending jobs not predicted again")

    def _post(self, item: Item) -> None:
        if self.prediction_refresh is not None:
            self.prediction_refresh.post(item)

    def _learn_run(self, attempt: int, run: PastRun) -> None:
        try:
            self._predictor.learn(run)
        except Exception:
            _log.exception("run not learned", job=run.job.id)
        self._last = max(self._last, (run.ended_us, run.job.id, attempt))
        self._unsaved += 1

    def _train(self) -> None:
        try:
            self._predictor.train()
        except Exception:
            _log.exception("predictor not trained")

    # -- history ---------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        kept = None if self._models is None else self._models.load()
        if kept is None:
            return
        with self._database.read() as connection:
            if not run_forecasts.is_known(connection, kept.last):
                _log.warning("the predictor file belongs to another store; training from history")
                return
        self._predictor.use(kept.predictor)
        self._last = kept.last

    def _read_history(self) -> None:
        """Replay the newest runs as they happened, so that prediction errors are learned too. Of older runs only the
        run time is learned."""
        with self._database.read() as connection:
            after = max(self._last, run_forecasts.first_to_learn(connection, MAX_HISTORY))
            newest_after = run_forecasts.first_to_learn(connection, MAX_PREDICTED)
        newest: list[FinishedRun] = []
        while not self._closing.is_set():
            with self._database.read() as connection:
                rows = run_forecasts.past_runs(connection, after, CHUNK)
            for row in rows:
                finished = self._finished_run(row)
                if finished is not None and row.key > newest_after:
                    newest.append(finished)
                elif finished is not None:
                    self._learn_past(finished)
            if len(rows) < CHUNK:
                return self._replay(newest)
            after = rows[-1].key

    def _replay(self, finished_runs: Sequence[FinishedRun]) -> None:
        for what, index, at_us in in_original_order([finished.run for finished in finished_runs]):
            if self._closing.is_set():
                return
            job = finished_runs[index].run.job
            if what == "came":
                self._predictor.predict(job)
            elif what == "begins":
                self._predictor.begin(job, at_us)
            else:
                self._learn_past(finished_runs[index])
        self._train()
        self._live = None

    def _finished_run(self, row: PastRow) -> FinishedRun | None:
        """None: it is in the queue already, or of no use."""
        if self._live is not None and (row.job_id, row.attempt) in self._live:
            return None
        try:
            return FinishedRun(row.attempt, past_run(row))
        except Exception as error:  # a job that this release cannot parse
            _log.warning("past run not readable", job=row.job_id, error=repr(error))
            return None

    def _learn_past(self, finished: FinishedRun) -> None:
        self._learn_run(*finished)
        self._past += 1
        if self._past >= TRAIN_GROWTH * self._trained:
            self._trained = self._past
            self._train()

    def _save(self) -> None:
        if self._models is not None and self._unsaved and self._last != BEFORE_ALL:
            predictor: Any = self._predictor.predictor
            try:
                self._models.save(predictor, self._last)
            except Exception:  # a query may change it while it is written; the next save succeeds
                _log.exception("predictor not saved")
        self._unsaved, self._saved_s = 0, time.monotonic()


def _nothing() -> None:
    pass


def past_run(row: PastRow) -> PastRun:
    """In the predictor's form. Work kept by checkpoints is known only for a job's last attempt."""
    kept_us = row.kept_us if row.is_last else 0
    return PastRun(job_from_dict(dict(row.core)), max(1, kept_us + row.ended_us - row.started_us), row.ended_us,
                   how_of(row.how), row.peak_memory_bytes, row.cpu_milli, row.host_memory_bytes)  # fmt: skip


def how_of(how: str) -> How:
    """An attempt that is held for its next one has failed."""
    return "failed" if how == "held" else how  # type: ignore[return-value]
