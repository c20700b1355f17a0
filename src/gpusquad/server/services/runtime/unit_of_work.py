"""What one turn of the scheduler changes: rows and their story, written in one transaction before anything acts."""

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
    """One line of a job's story."""

    row: JobRow
    """The job as it is after it."""
    at_us: int
    kind: str
    cause: str = ""
    actor: str = ""
    data: dict[str, Any] | None = None


@dataclass
class UnitOfWork:
    """A unit of work over the rows of unfinished jobs."""

    now_us: int
    rows: dict[str, JobRow]
    fresh: set[str] = field(default_factory=set)
    """Jobs that are not in the store yet: they are put there as they are at the end of the turn."""
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    told: list[StoryEvent] = field(default_factory=list)
    opened: list[AttemptRow] = field(default_factory=list)
    """Attempts that hold their cards from now on."""
    foretold: list[RunForecastRow] = field(default_factory=list)
    """Forecasts of run times, to be held against the truth."""
    writes: list[Write] = field(default_factory=list)
    """Whatever else belongs into the transaction."""
    acts: list[Callable[[], None]] = field(default_factory=list)
    """What is done once the transaction stands: engines are told here and nowhere else."""
    _latest: dict[str, JobRow] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.has_writes or self.acts)

    @property
    def has_writes(self) -> bool:
        return bool(self.fresh or self.changes or self.told or self.opened or self.foretold or self.writes)

    def add(self, row: JobRow, kind: str, cause: str = "", *, actor: str = "") -> None:
        """A job that comes in within a turn, with the first line of its story."""
        self.rows[row.id] = row
        self.fresh.add(row.id)
        self.tell(row.id, kind, cause, actor=actor)

    def change(self, job_id: str, **columns: Any) -> JobRow:
        """Columns that are no transition."""
        row = self.rows[job_id] = replace(self.rows[job_id], **columns)
        if job_id in self.fresh:
            self._latest[job_id] = row  # it may be over, and gone from the rows, before it is written
        else:
            self.changes.setdefault(job_id, {}).update(columns)
        return row

    def move(self, job_id: str, then: JobState, kind: str, cause: str = "", *, actor: str = "",
             data: dict[str, Any] | None = None, **columns: Any) -> JobRow:  # fmt: skip
        """A transition, if the one table allows it, with its line in the story."""
        state = advance(job_id, JobState(self.rows[job_id].state), then)
        row = self.change(job_id, state=str(state), cause=cause, **columns)
        self.tell(job_id, kind, cause, actor=actor, data=data)
        return row

    def tell(self, job_id: str, kind: str, cause: str = "", *, actor: str = "",
             data: dict[str, Any] | None = None) -> None:  # fmt: skip
        self.told.append(StoryEvent(self.rows[job_id], self.now_us, kind, cause, actor, data))

    def write(self, connection: Connection) -> list[int]:
        """Everything, in the caller's transaction; returns the numbers of the story's lines."""
        jobs.insert(connection, [self._latest.get(job_id) or self.rows[job_id] for job_id in sorted(self.fresh)])
        jobs.change_all(connection, self.changes)
        numbers = events.append_all(connection, [_line(one) for one in self.told])
        attempts.open_all(connection, self.opened)
        run_forecasts.add(connection, self.foretold)
        for write in self.writes:
            write(connection)
        return numbers


def _line(told: StoryEvent) -> dict[str, Any]:
    row = told.row
    return {"job_id": row.id, "tenant": row.tenant, "at_us": told.at_us, "kind": told.kind, "state": row.state,
            "attempt": row.attempt, "cause": told.cause, "data": told.data, "actor": told.actor}  # fmt: skip
