"""State that the scheduler's services share: the driver, the rows of unfinished jobs and the current unit of work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.core.driver import Driver
from gpusquad.core.observed import ClusterEngine
from gpusquad.core.ports import Engine
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.model.codec import job_to_dict
from gpusquad.model.job import Job
from gpusquad.server.services.prediction.predictor import JobPrediction, LockedPredictor
from gpusquad.server.services.prediction.start_log import StartLog
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.server.services.runtime.loop import Item, SchedulerLoop
from gpusquad.server.services.runtime.observer import Observer
from gpusquad.server.services.runtime.peaks import Peaks
from gpusquad.server.services.runtime.records import cards_of, job_of
from gpusquad.server.services.runtime.unit_of_work import StoryEvent, UnitOfWork
from gpusquad.store.database import Database
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.scheduler")


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
    containment: ContainmentRules = field(default_factory=ContainmentRules)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        """Held while the state changes or is copied; never during I/O."""
        self.version = 0
        """Number of passes. Answers with the same number are about the same state."""
        self.rows: dict[str, JobRow] = {}
        self.jobs: dict[str, Job] = {}
        self.peaks = Peaks()
        self.starts = StartLog()
        self.estimating: frozenset[str] = frozenset()
        """Jobs whose estimator runs."""
        self.listeners: list[Listener] = []
        self.unavailable = ""
        """Why nothing can be stored now. Empty: it can."""
        self.on_broken: Callable[[], None] = lambda: None
        """Called when memory and store may differ. The service must stop; the store is right."""
        self.run_pass: Callable[[Sequence[Item]], float | None]
        """``SchedulerPass.run``. Set by the scheduler."""
        self.loop = SchedulerLoop(lambda items: self.run_pass(items))
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

    def count_place_from(self, unit: UnitOfWork, job_id: str, at_us: int, *, at_most: bool = False) -> None:
        """Count the job's place in the queue from this instant on, unless it counts from a later one. ``at_most``: or
        from an earlier one instead."""
        before, row = self.job(job_id), unit.rows[job_id]
        job = before.eligible_by(at_us) if at_most else before.eligible_from(at_us, row.served_gpu_us)
        if job is not before:
            self.jobs[job_id] = job
            unit.change(job_id, core=job_to_dict(job))

    def avoid_cards(self, unit: UnitOfWork, job_id: str, cards: Sequence[str]) -> None:
        """Place the job on other cards than these if possible."""
        self.jobs[job_id] = job = self.job(job_id).avoiding(cards)
        unit.change(job_id, core=job_to_dict(job))

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

    def versioned_copy(self) -> tuple[int, SchedulerState]:
        """``copy_now`` with its version."""
        with self.lock:
            return self.version, self.copy_now()

    def copy_now(self) -> SchedulerState:
        """Copy of the state at the current time, for an answer. The last pass may be some time ago."""
        copy = self.copy()
        copy.now_us = max(copy.now_us, self.clock.now_us())
        return copy

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
