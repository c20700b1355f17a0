"""What the parts of the scheduler share: the driver, the rows of unfinished jobs, and one turn of work after another.

A turn is: handle what came in, decide, put everything on record in one transaction, and only then act. So nothing runs
that the store does not know of, and a crash at any point leaves either nothing or a record to go by.
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
    """The clock, as far as the scheduler needs it."""

    def now_us(self) -> int: ...


Listener = Callable[[Sequence[tuple[int, StoryEvent]]], None]
"""Told what happened, with the numbers of the lines, once it is on record."""


@dataclass
class SchedulerContext:
    """Everything behind the scheduler's one lock."""

    database: Database
    clock: SchedulerClock
    engine: Engine
    predictor: LockedPredictor
    training: PredictorTraining
    simulated: bool = False
    cluster_engine: ClusterEngine | None = None
    """The engine again, where others make the gangs."""
    observer: Observer = field(default_factory=Observer)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        """Held while the state changes or is copied; never over I/O."""
        self.rows: dict[str, JobRow] = {}
        self.jobs: dict[str, Job] = {}
        self.peaks = Peaks()
        self.listeners: list[Listener] = []
        self.in_transaction: list[Callable[[Any, Sequence[StoryEvent]], None]] = []
        """Called with the connection inside a turn's transaction: what must not be lost if the story is not."""
        self.before_deciding: list[Callable[[UnitOfWork], int]] = []
        """Called before each cycle; each says when it wants to be called again."""
        self.after_deciding: list[Callable[[UnitOfWork, Sequence[Decision]], None]] = []
        self.unavailable = ""
        """Why nothing can be put on record just now."""
        self.on_broken: Callable[[], None] = lambda: None
        """Called when memory and store may no longer agree: whoever runs the service stops it, the store is right."""
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
        """The model of the cards it is on; empty: it is on none that is known, or on several."""
        fixed = self.fixed
        known = [fixed.card_index[card] for card in cards_of(row) if card in fixed.card_index]
        models = {fixed.models[fixed.card_model[index]] for index in known}
        return models.pop() if len(models) == 1 else ""

    def forecast(self, job: Job, done_us: int = 0) -> JobPrediction:
        """How long it is believed to run."""
        return self.predictor.predict(job, done_us)

    def copy(self) -> SchedulerState:
        """The state to try things on, in the caller's own thread."""
        with self.lock:
            other = copy_state(self.state)
        # Places remember what they worked out by this object: a copy has a memory of its own.
        other.space.fixed = copy(other.space.fixed)
        return other

    def notify(self, events: Sequence[tuple[int, StoryEvent]]) -> None:
        """Whoever listens hears what is on record now; what they make of it is their own affair."""
        for listener in self.listeners:
            try:
                listener(events)
            except Exception:
                _log.exception("a listener failed")

    def drop(self, job_id: str) -> None:
        """Over for good: the store remembers."""
        self.rows.pop(job_id, None)
        self.jobs.pop(job_id, None)
        self.driver.forget(job_id)

    def _run_or_break(self, items: Sequence[Item]) -> float | None:
        try:
            return self._run_pass(items)
        except ServiceStopping:
            raise
        except Exception as error:
            _log.exception("the scheduler stops; the next start goes on from the store")
            self.unavailable = f"the scheduler broke: {type(error).__name__}"
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
            _log.exception("an event could not be handled")
            return None

    def _act(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            _log.exception("an engine could not be told")

    def _commit(self, unit: UnitOfWork) -> None:
        """Tried until it stands: without it nothing may act, and no caller hears that it is done."""
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
                    _log.warning("the store does not answer; decisions wait for it", error=str(error))
                self.unavailable = str(error)
            if not self.loop.pause(wait_s):
                raise ServiceStopping("the service stops while its store does not answer")
            wait_s = min(2 * wait_s, _LAST_RETRY_S)
        if self.unavailable:
            self.unavailable = ""
            _log.info("the store answers again")
        self.notify(list(zip(numbers, unit.events, strict=True)))
