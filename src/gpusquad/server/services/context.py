"""State that the scheduler's services share: the driver, the rows of unfinished jobs and the current unit of work.

A pass handles the inbox, decides, commits all changes in one transaction, and only then acts. So nothing runs that is
not stored, and a crash at any point leaves either nothing or a record to recover from.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.driver import Driver
from gpusquad.core.observed import ClusterEngine
from gpusquad.core.ports import Engine
from gpusquad.core.state.runs import NEVER_US
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.model.decision import Decision
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.server.services.prediction.predictor import JobPrediction, LockedPredictor
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.server.services.runtime.loop import Finish, Item, SchedulerLoop, ServiceStopping
from gpusquad.server.services.runtime.observer import Observer
from gpusquad.server.services.runtime.peaks import Peaks
from gpusquad.server.services.runtime.records import cards_of, job_of
from gpusquad.server.services.runtime.unit_of_work import StoryEvent, UnitOfWork
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.scheduler")
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 2.0
MAX_SLEEP_S = 60.0


class SchedulerClock(Protocol):
    """The part of the clock that the scheduler uses."""

    def now_us(self) -> int: ...


Listener = Callable[[Sequence[tuple[int, StoryEvent]]], None]
"""Called with stored events and their numbers."""


@dataclass
class SchedulerContext:
    """State that the scheduler's services share, protected by one lock."""

    database: Database
    clock: SchedulerClock
    engine: Engine
    predictor: LockedPredictor
    training: PredictorTraining
    simulated: bool = False
    cluster_engine: ClusterEngine | None = None
    """The engine, if it is a cluster engine."""
    observer: Observer = field(default_factory=Observer)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        """Held while the state changes or is copied; never during I/O."""
        self.rows: dict[str, JobRow] = {}
        self.jobs: dict[str, Job] = {}
        self.peaks = Peaks()
        self.listeners: list[Listener] = []
        self.in_transaction: list[Callable[[Any, Sequence[StoryEvent]], None]] = []
        """Called with the connection inside the transaction of a pass, for rows that must be stored together with the
        events."""
        self.before_deciding: list[Callable[[UnitOfWork], int]] = []
        """Called before each cycle. Each returns when it must be called again."""
        self.after_deciding: list[Callable[[UnitOfWork, Sequence[Decision]], None]] = []
        self.unavailable = ""
        """Why nothing can be stored now. Empty: it can."""
        self.on_broken: Callable[[], None] = lambda: None
        """Called when memory and store may differ. The service must stop; the store is right."""
        self.loop = SchedulerLoop(self._run_or_break)
        self.driver: Driver
        self.unit: UnitOfWork

    @property
    def state(self) -> SchedulerState:
        return self.driver.state

    @property
    def fixed(self) -> ClusterArrays:
        return self.driver.state.space.fixed

    def job(self, job_id: str) -> Job:
        """The core's job of an unfinished row."""
        if job_id not in self.jobs:
            self.jobs[job_id] = job_of(self.rows[job_id])
        return self.jobs[job_id]

    def gpu_of(self, row: JobRow) -> str:
        """Model of the job's cards. Empty if unknown or if there are several."""
        fixed = self.fixed
        known = [fixed.card_index[card] for card in cards_of(row) if card in fixed.card_index]
        models = {fixed.models[fixed.card_model[index]] for index in known}
        return models.pop() if len(models) == 1 else ""

    def forecast(self, job: Job, done_us: int = 0) -> JobPrediction:
        """Predict the job's run time."""
        return self.predictor.predict(job, done_us)

    def copy(self) -> SchedulerState:
        """Copy of the state for the caller's thread."""
        with self.lock:
            other = copy_state(self.state)
        # Place policies cache results by this object, so a copy needs its own.
        other.space.fixed = copy(other.space.fixed)
        return other

    def notify(self, events: Sequence[tuple[int, StoryEvent]]) -> None:
        """Pass stored events to all listeners. An error in one does not affect the others."""
        for listener in self.listeners:
            try:
                listener(events)
            except Exception:
                _log.exception("listener failed")

    def drop(self, job_id: str) -> None:
        """Remove an ended job from memory."""
        self.rows.pop(job_id, None)
        self.jobs.pop(job_id, None)
        self.driver.forget(job_id)

    def _run_or_break(self, items: Sequence[Item]) -> float | None:
        try:
            return self._run_pass(items)
        except ServiceStopping:
            raise
        except Exception as error:
            _log.exception("scheduler failed; the next start continues from the store")
            self.unavailable = f"the scheduler failed: {type(error).__name__}"
            self.on_broken()
            raise ServiceStopping(self.unavailable) from error

    def _run_pass(self, items: Sequence[Item]) -> float | None:
        now_us = self.clock.now_us()
        unit = self.unit = UnitOfWork(now_us, self.rows)
        with self.lock:
            finishes = [finish for item in items if (finish := self._handle(item)) is not None]
            wake_us = min((call(unit) for call in self.before_deciding), default=NEVER_US)
            began = time.perf_counter()
            decisions = self.driver.decide(now_us)
            self.observer.cycled(time.perf_counter() - began)
            for call in self.after_deciding:
                call(unit, decisions)
            wake_us = min(wake_us, self.driver.next_wake_us())
        self._commit(unit)
        for finish in finishes:
            finish()
        for act in unit.after_commit:
            self._act(act)
        if wake_us >= NEVER_US:
            return MAX_SLEEP_S
        return min(max(0.0, (wake_us - self.clock.now_us()) / US_PER_S), MAX_SLEEP_S)

    def _handle(self, item: Item) -> Finish | None:
        try:
            return item()
        except Exception:
            _log.exception("event not handled")
            return None

    def _act(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            _log.exception("action after commit failed")

    def _commit(self, unit: UnitOfWork) -> None:
        """Store the unit of work, and retry until it succeeds: until then nothing may act and no caller may get an
        answer."""
        if not unit.has_writes:
            return
        wait_s = _FIRST_RETRY_S
        while True:
            try:
                with self.database.write() as connection:
                    numbers = unit.write(connection)
                    for call in self.in_transaction:
                        call(connection, unit.events)
                break
            except StoreUnavailable as error:
                if not self.unavailable:
                    _log.warning("the store does not answer; decisions wait", error=str(error))
                self.unavailable = str(error)
            if not self.loop.pause(wait_s):
                raise ServiceStopping("the service is stopping and its store does not answer")
            wait_s = min(2 * wait_s, _LAST_RETRY_S)
        if self.unavailable:
            self.unavailable = ""
            _log.info("the store answers again")
        self.notify(list(zip(numbers, unit.events, strict=True)))
