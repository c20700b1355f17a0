"""Changes of one pass of the scheduler: rows and events, written in one transaction before the engine is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from gpusquad.core.transitions import JobState, advance
from gpusquad.store import attempts, events, jobs, run_forecasts
from gpusquad.store.attempts import AttemptRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.run_forecasts import RunForecastRow

Write = Callable[[Connection], object]


@dataclass(frozen=True, slots=True)
class StoryEvent:
    """One event of a job."""

    row: JobRow
    """The job after the event."""
    at_us: int
    kind: str
    cause: str = ""
    actor: str = ""
    data: dict[str, Any] | None = None


@dataclass
class UnitOfWork:
    """Changes to the rows of unfinished jobs in one pass."""

    now_us: int
    rows: dict[str, JobRow]
    new_jobs: set[str] = field(default_factory=set)
    """Jobs that are not stored yet. They are inserted as they are at the end of the pass."""
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[StoryEvent] = field(default_factory=list)
    opened_attempts: list[AttemptRow] = field(default_factory=list)
    """Attempts that hold their cards from now on."""
    predictions: list[RunForecastRow] = field(default_factory=list)
    """Run-time predictions, to compare with the actual run times."""
    writes: list[Write] = field(default_factory=list)
    """Other writes of the same transaction."""
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    """Run after the commit. The engine is called here and nowhere else."""
    _latest: dict[str, JobRow] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.has_writes or self.after_commit)

    @property
    def has_writes(self) -> bool:
        return bool(
            self.new_jobs or self.changes or self.events or self.opened_attempts or self.predictions or self.writes
        )

    def add(self, row: JobRow, kind: str, cause: str = "", *, actor: str = "") -> None:
        """Add a job that was accepted in this pass, with its first event."""
        self.rows[row.id] = row
        self.new_jobs.add(row.id)
        self.record(row.id, kind, cause, actor=actor)

    def change(self, job_id: str, **columns: Any) -> JobRow:
        """Change columns without a state transition."""
        row = self.rows[job_id] = replace(self.rows[job_id], **columns)
        if job_id in self.new_jobs:
            self._latest[job_id] = row  # it may end, and leave the rows, before it is written
        else:
            self.changes.setdefault(job_id, {}).update(columns)
        return row

    def transition(self, job_id: str, then: JobState, kind: str, cause: str = "", *, actor: str = "",
             data: dict[str, Any] | None = None, **columns: Any) -> JobRow:  # fmt: skip
        """Change the state if the transition table allows it, and record an event."""
        state = advance(job_id, JobState(self.rows[job_id].state), then)
        row = self.change(job_id, state=str(state), cause=cause, **columns)
        self.record(job_id, kind, cause, actor=actor, data=data)
        return row

    def record(self, job_id: str, kind: str, cause: str = "", *, actor: str = "",
             data: dict[str, Any] | None = None) -> None:  # fmt: skip
        self.events.append(StoryEvent(self.rows[job_id], self.now_us, kind, cause, actor, data))

    def write(self, connection: Connection) -> list[int]:
        """Write everything in the caller's transaction. Returns the event numbers."""
        jobs.insert(connection, [self._latest.get(job_id) or self.rows[job_id] for job_id in sorted(self.new_jobs)])
        jobs.change_all(connection, self.changes)
        numbers = events.append_all(connection, [_line(one) for one in self.events])
        attempts.open_all(connection, self.opened_attempts)
        run_forecasts.add(connection, self.predictions)
        for write in self.writes:
            write(connection)
        return numbers


def _line(event: StoryEvent) -> dict[str, Any]:
    row = event.row
    return {"job_id": row.id, "tenant": row.tenant, "at_us": event.at_us, "kind": event.kind, "state": row.state,
            "attempt": row.attempt, "cause": event.cause, "data": event.data, "actor": event.actor}  # fmt: skip
