"""A minimal service: stores jobs, decides where they run and which stop, and calls the registry."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpusquad.core.observed import GangFound, GangsResynced, GangWithdrawn, TaskLocation
from gpusquad.core.ports import AttemptEnded, AttemptStarted
from gpusquad.engines.kubernetes.gangs.registry import GangRegistry
from gpusquad.model.job import Job

WAITING, ON_CARDS = ("pending",), ("starting", "running", "preempting", "stopping")
Key = tuple[str, int]
"""A job and its attempt."""


@dataclass
class Row:
    """A job in the store of the service."""

    job: Job
    state: str = "pending"
    attempt: int = 0
    places: tuple[TaskLocation, ...] = ()


@dataclass
class Service:
    """``reports`` are not handled yet, ``calls`` not delivered to the registry. Jobs that may end or be withdrawn
    more than once are counted."""

    registry: GangRegistry = field(init=False, repr=False)
    store: dict[str, Row] = field(default_factory=dict)
    finished_jobs: set[str] = field(default_factory=set)
    reports: deque[Any] = field(default_factory=deque)
    calls: deque[Callable[[], None]] = field(default_factory=deque)
    launched: int = 0
    known: set[str] = field(default_factory=set)
    """Jobs that the registry reported or that were passed to it."""
    ends: Counter[Key] = field(default_factory=Counter)
    may_end_again: Counter[Key] = field(default_factory=Counter)
    may_withdraw_again: Counter[str] = field(default_factory=Counter)
    stop_requested: set[str] = field(default_factory=set)

    def on_change(self) -> None:
        """Handle the oldest report."""
        event = self.reports.popleft()
        handle = {GangFound: self._found, GangWithdrawn: self._withdrawn, GangsResynced: self._resynced,
                  AttemptStarted: self._started, AttemptEnded: self._ended}[type(event)]  # fmt: skip
        handle(event)

    def _found(self, found: GangFound) -> None:
        job = found.job
        if job.id in self.finished_jobs:
            self.calls.append(lambda: self.registry.begin_incarnation(job.id))
            return
        row = self.store.setdefault(job.id, Row(job))
        if row.state == "pending":
            row.job = job
            if found.places:
                row.state, row.places = "running", found.places
                attempt = row.attempt
                self._call("resume", job.id, attempt, lambda: self.registry.resume(job, attempt, found.places, True))

    def _withdrawn(self, withdrawn: GangWithdrawn) -> None:
        row = self.store.get(withdrawn.job_id)
        if row is not None and row.state in WAITING:
            self._finish(withdrawn.job_id)

    def _resynced(self, resynced: GangsResynced) -> None:
        for job in [job for job in self.store if job not in resynced.job_ids]:
            self._finish(job)

    def _started(self, event: AttemptStarted) -> None:
        row = self.store.get(event.job_id)
        if row is not None and row.attempt == event.attempt and row.state == "starting":
            row.state = "running"

    def _ended(self, event: AttemptEnded) -> None:
        row = self.store.get(event.job_id)
        if row is None or row.attempt != event.attempt or row.state not in ON_CARDS:
            return
        if event.how == "succeeded" or row.state == "stopping":
            self._finish(event.job_id)
        elif row.state == "preempting" or event.how in ("lost", "stopped"):
            row.state, row.attempt, row.places = "pending", row.attempt + 1, ()
        else:
            self._finish(event.job_id)

    def _finish(self, job: str) -> None:
        del self.store[job]
        self.finished_jobs.add(job)
        self.stop_requested.add(job)
        self.calls.append(lambda: self.registry.finished(job))

    def _call(self, kind: str, job: str, attempt: int, call: Callable[[], None]) -> None:
        def do() -> None:
            self.known.add(job)
            gang = self.registry.by_job.get(job)
            if kind == "stop" or self.ends[job, attempt]:
                self.may_end_again[job, attempt] += 1
            if gang is None:
                self.may_withdraw_again[job] += 1
            call()

        self.calls.append(do)

    def launch(self, job: str) -> None:
        row = self.store[job]
        if row.state == "pending":
            row.places = tuple(
                TaskLocation(
                    f"node{number % 3}", tuple(f"GPU-{self.launched}-{number}-{n}" for n in range(request.cards))
                )
                for number, request in enumerate(_requests(row.job))
            )
            self.launched += 1
            row.state = "starting"
            attempt, places = row.attempt, row.places
            self._call("launch", job, attempt, lambda: self.registry.launch(job, attempt, places))

    def preempt(self, job: str) -> None:
        self._request_stop(job, "preempting")

    def cancel(self, job: str) -> None:
        row = self.store[job]
        if row.state == "stopping":
            return
        self.stop_requested.add(job)
        self.calls.append(lambda: self.registry.withdraw(job, "cancelled"))
        if row.state == "pending":
            self._finish(job)
        else:
            self._request_stop(job, "stopping")

    def _request_stop(self, job: str, state: str) -> None:
        row = self.store[job]
        if row.state in ("starting", "running") or (row.state == "preempting" and state == "stopping"):
            row.state = state
            self.stop_requested.add(job)
            attempt = row.attempt
            self._call("stop", job, attempt, lambda: self.registry.stop(job, attempt, state, None))


def _requests(job: Job) -> list[Any]:
    return [role.request for role in job.roles for _ in range(role.count)]
