"""Current state of jobs. Their history is in ``events``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, Update, bindparam, delete, func, select, update

from gpusquad.store.job_filter import ANY, JobFilter, ordered, restricted
from gpusquad.store.paging import Page, to_cursor
from gpusquad.store.rows import names_of, values_of
from gpusquad.store.tables import job_waits, jobs

__all__ = [
    "FINAL_STATES",
    "UNFINISHED_STATES",
    "JobFilter",
    "JobRow",
    "by_group",
    "by_prefix",
    "change",
    "change_all",
    "count",
    "count_by_state",
    "find",
    "get",
    "group_sizes",
    "ids_of_final",
    "insert",
    "next_sequence",
    "summaries",
    "unfinished",
    "waiting_on",
]

UNFINISHED_STATES = ("held", "pending", "starting", "running", "preempting", "stopping", "lost")
FINAL_STATES = ("succeeded", "failed", "cancelled", "timed_out")
_HELD = "held"
_SUMMARY = ("id", "name", "tenant", "user", "group_id", "state", "attempt", "submitted_us", "started_us", "ended_us",
            "gpus", "cause", "result", "spec")  # fmt: skip
_MOST_KEYS = 500
"""Ids in one statement."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job."""

    id: str
    name: str
    tenant: str
    user: str
    queue: str = ""
    group_id: str | None = None
    state: str = "pending"
    attempt: int = 0
    priority: str = "normal"
    lane: str = ""
    submitted_us: int = 0
    started_us: int | None = None
    ended_us: int | None = None
    release_us: int | None = None
    """Earliest time of the next attempt."""
    sequence: int = 0
    gpus: int = 0
    gpu_milli: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    retries_left: int = 0
    cause: str = ""
    forecast: dict[str, Any] | None = None
    after: list[dict[str, Any]] = field(default_factory=list)
    placement: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    progress: dict[str, Any] | None = None
    stop: dict[str, Any] | None = None
    spec: dict[str, Any] = field(default_factory=dict)
    core: dict[str, Any] = field(default_factory=dict)
    losses: list[dict[str, Any]] | None = None
    """Recent losses, oldest first."""
    resolved: dict[str, Any] | None = None
    """What the service filled in: ``choices`` for open fields, and the ``estimator`` with its answer."""


def insert(c: Connection, rows: Iterable[JobRow]) -> None:
    """Insert new jobs."""
    values = [values_of(row) for row in rows]
    if values:
        c.execute(jobs.insert(), values)
        _insert_waits(c, ((row["id"], row["after"]) for row in values))


def get(c: Connection, job_id: str) -> JobRow | None:
    """The job with this id."""
    row = c.execute(select(jobs).where(jobs.c.id == job_id)).first()
    return JobRow(*row) if row else None


def by_prefix(c: Connection, prefix: str, limit: int = 2) -> list[JobRow]:
    """Jobs whose id starts with the prefix. Two results are enough to know that it is ambiguous."""
    behind = prefix + "\x7f"  # sorts after every character that an id can contain
    where = select(jobs).where(jobs.c.id >= prefix, jobs.c.id < behind)
    return _rows(c, where.order_by(jobs.c.id).limit(limit))


def find(c: Connection, where: JobFilter = ANY, limit: int = 100, cursor: str | None = None) -> Page[JobRow]:
    """One page in the filter's order."""
    key, order = ordered(where)
    # Ids first, from an index. Whole jobs with their JSON are read only for this page.
    ids = restricted(select(jobs.c.id), where, cursor).order_by(*order).limit(limit + 1).subquery()
    found = _rows(c, select(jobs).join(ids, ids.c.id == jobs.c.id).order_by(*order))
    if len(found) <= limit:
        return Page(found)
    last = found[limit - 1]
    return Page(found[:limit], to_cursor(where.sort, getattr(last, key.name), last.id))


def count(c: Connection, where: JobFilter = ANY) -> int:
    """Number of matching jobs."""
    return c.execute(restricted(select(func.count()).select_from(jobs), where)).scalar_one()


def count_by_state(c: Connection, where: JobFilter = ANY) -> dict[str, int]:
    """Number of jobs in each state. States without jobs are left out."""
    counts = restricted(select(jobs.c.state, func.count()), where).group_by(jobs.c.state)
    return {row[0]: row[1] for row in c.execute(counts)}


def unfinished(c: Connection) -> list[JobRow]:
    """Every unfinished job, in order of arrival."""
    return _rows(c, select(jobs).where(jobs.c.state.in_(UNFINISHED_STATES)).order_by(jobs.c.sequence, jobs.c.id))


def by_group(c: Connection, group_id: str) -> list[JobRow]:
    """Jobs of one submission, in order of arrival."""
    return _rows(c, select(jobs).where(jobs.c.group_id == group_id).order_by(jobs.c.sequence, jobs.c.id))


def summaries(c: Connection, job_ids: Iterable[str]) -> dict[str, JobRow]:
    """These jobs with the columns that notices name, without the large ones."""
    columns = [jobs.c[name] for name in _SUMMARY]
    found: dict[str, JobRow] = {}
    for some in _chunks(job_ids):
        rows = c.execute(select(*columns).where(jobs.c.id.in_(some)))
        found |= {row.id: JobRow(**dict(zip(_SUMMARY, row, strict=True))) for row in rows}
    return found


def group_sizes(c: Connection, group_ids: Iterable[str]) -> dict[str, int]:
    """Number of jobs of each of these submissions."""
    found: dict[str, int] = {}
    for some in _chunks(group_ids):
        counts = select(jobs.c.group_id, func.count()).where(jobs.c.group_id.in_(some)).group_by(jobs.c.group_id)
        found |= {row[0]: row[1] for row in c.execute(counts)}
    return found


def waiting_on(c: Connection, job_id: str) -> list[JobRow]:
    """Held jobs that depend on this one, in order of arrival."""
    waiting = select(jobs).join(job_waits, job_waits.c.job_id == jobs.c.id)
    named = waiting.where(job_waits.c.waits_for == job_id, jobs.c.state == _HELD)
    return _rows(c, named.order_by(jobs.c.sequence, jobs.c.id))


def change(c: Connection, job_id: str, **columns: Any) -> None:
    """Set columns of a job. KeyError if there is no job with this id."""
    unknown = columns.keys() - set(names_of(JobRow)[1:])
    if unknown:
        raise TypeError(f"a job has no {', '.join(sorted(unknown))} to change")
    if columns and c.execute(update(jobs).where(jobs.c.id == job_id).values(columns)).rowcount == 0:
        raise KeyError(job_id)
    if "after" in columns:
        c.execute(delete(job_waits).where(job_waits.c.job_id == job_id))
        _insert_waits(c, [(job_id, columns["after"])])


def change_all(c: Connection, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Set columns of many jobs. Jobs that change in the same columns share one statement."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for job_id, columns in changes.items():
        names = tuple(sorted(columns))
        if "after" in columns or not columns:
            change(c, job_id, **columns)
        else:
            alike.setdefault(names, []).append({"of_job": job_id, **columns})
    for names, rows in alike.items():
        if len(rows) == 1:
            columns = dict(rows[0])
            change(c, columns.pop("of_job"), **columns)
        elif c.execute(_update_of(names), rows).rowcount not in (len(rows), -1):
            raise KeyError(", ".join(row["of_job"] for row in rows[:10]))


@lru_cache(maxsize=256)
def _update_of(names: tuple[str, ...]) -> Update:
    unknown = set(names) - set(names_of(JobRow)[1:])
    if unknown:
        raise TypeError(f"a job has no {', '.join(sorted(unknown))} to change")
    return update(jobs).where(jobs.c.id == bindparam("of_job")).values({name: bindparam(name) for name in names})


def ids_of_final(c: Connection) -> set[str]:
    """Of all finished jobs."""
    return set(c.execute(select(jobs.c.id).where(jobs.c.state.in_(FINAL_STATES))).scalars())


def next_sequence(c: Connection) -> int:
    """The next free arrival number. Call it in the write that uses it; a batch counts up from there."""
    return c.execute(select(func.coalesce(func.max(jobs.c.sequence), 0))).scalar_one() + 1


def _chunks(keys: Iterable[str]) -> list[list[str]]:
    every = sorted(set(keys))
    return [every[start : start + _MOST_KEYS] for start in range(0, len(every), _MOST_KEYS)]


def _rows(c: Connection, query: Select) -> list[JobRow]:
    return [JobRow(*row) for row in c.execute(query)]


def _insert_waits(c: Connection, jobs_after: Iterable[tuple[str, list[dict[str, Any]]]]) -> None:
    pairs = {(entry["job"], job_id) for job_id, after in jobs_after for entry in after}
    if pairs:
        c.execute(job_waits.insert(), [{"waits_for": other, "job_id": job_id} for other, job_id in sorted(pairs)])
