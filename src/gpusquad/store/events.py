"""Events of all jobs: append-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select

from gpusquad.store.rows import number_of
from gpusquad.store.tables import events, jobs

PRIVATE = "private"
"""Key of an event's data for lines of the job's output, which only those may see who may read its logs."""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event of a job. Later events have larger ids."""

    id: int
    job_id: str
    at_us: int
    kind: str
    state: str
    attempt: int
    cause: str = ""
    actor: str = ""
    data: dict[str, Any] | None = None
    tenant: str | None = None
    """Tenant of the job."""


# The tenant is copied into each event, so that a reader can follow one tenant without scanning the others' events.
_APPEND = insert(events).values(
    tenant=select(jobs.c.tenant).where(jobs.c.id == bindparam("of_job")).scalar_subquery(),
)

_MOST_IDS = 500
"""Jobs per query."""
_HOLDING = ("held", "retry", "suspected")
"""Kinds of events that hold a job."""
_APPEND_ALL = insert(events).returning(events.c.id, sort_by_parameter_order=True)


def append(
    c: Connection,
    job_id: str,
    at_us: int,
    kind: str,
    state: str,
    attempt: int,
    cause: str = "",
    data: dict[str, Any] | None = None,
    actor: str = "",
) -> int:
    """Append an event and return its id. Call it in the transaction that changes the job."""
    values = {
        "job_id": job_id, "of_job": job_id, "at_us": at_us, "kind": kind, "state": state, "attempt": attempt,
        "cause": cause, "data": data, "actor": actor,
    }  # fmt: skip
    return number_of(c.execute(_APPEND, values))


def append_all(c: Connection, rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Append several events, each with all columns but its id. Returns their ids in the same order."""
    return list(c.execute(_APPEND_ALL, rows).scalars()) if rows else []


def of_job(c: Connection, job_id: str, after: int = 0, limit: int = 1000) -> list[EventRow]:
    """Events of one job, oldest first."""
    query = select(events).where(events.c.job_id == job_id, events.c.id > after).order_by(events.c.id).limit(limit)
    return [EventRow(*row) for row in c.execute(query)]


def updates(c: Connection, job_ids: Sequence[str]) -> dict[str, list[EventRow]]:
    """Changes by users, newest first, of those jobs that have any."""
    found: dict[str, list[EventRow]] = {}
    for start in range(0, len(job_ids), _MOST_IDS):
        these = events.c.job_id.in_(job_ids[start : start + _MOST_IDS]) & (events.c.kind == "updated")
        for row in c.execute(select(events).where(these).order_by(events.c.id.desc())):
            found.setdefault(row.job_id, []).append(EventRow(*row))
    return found


def attempts_with(c: Connection, kind: str, job_ids: Sequence[str]) -> set[tuple[str, int]]:
    """Which attempts of these jobs have an event of a kind."""
    found: set[tuple[str, int]] = set()
    for start in range(0, len(job_ids), _MOST_IDS):
        these = events.c.job_id.in_(job_ids[start : start + _MOST_IDS]) & (events.c.kind == kind)
        found |= {(row[0], row[1]) for row in c.execute(select(events.c.job_id, events.c.attempt).where(these))}
    return found


def held_since(c: Connection, job_ids: Sequence[str]) -> dict[str, int]:
    """Since when these jobs are held, of those that are: the last event that held them."""
    found: dict[str, int] = {}
    for start in range(0, len(job_ids), _MOST_IDS):
        these = events.c.job_id.in_(job_ids[start : start + _MOST_IDS]) & events.c.kind.in_(_HOLDING)
        query = select(events.c.job_id, func.max(events.c.at_us)).where(these).group_by(events.c.job_id)
        found |= {row[0]: row[1] for row in c.execute(query)}
    return found


def after(c: Connection, event_id: int, limit: int = 1000, tenant: str | None = None) -> list[EventRow]:
    """Events after the event with this id, of all jobs or of one tenant."""
    query = select(events).where(events.c.id > event_id).order_by(events.c.id).limit(limit)
    if tenant is not None:
        query = query.where(events.c.tenant == tenant)
    return [EventRow(*row) for row in c.execute(query)]


def last_id(c: Connection) -> int:
    """Id of the newest event; 0 if there is none."""
    return c.execute(select(events.c.id).order_by(events.c.id.desc()).limit(1)).scalar() or 0
