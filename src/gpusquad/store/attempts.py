"""Attempts with the cards they held and when: the basis of usage figures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import Connection, Float, case, cast, delete, distinct, func, or_, select, tuple_, update

from gpusquad.store.rows import insert_all_new, insert_new
from gpusquad.store.tables import attempts

_MILLI_US_PER_S = 1e9
_MOST_KEYS = 400
"""Attempts in one statement."""


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One run of a gang on its cards."""

    job_id: str
    attempt: int
    tenant: str
    user: str
    started_us: int
    ended_us: int | None = None
    gpu_milli: int = 0
    cards: list[str] = field(default_factory=list)
    how: str = ""
    cause: str = ""
    urgent_from_us: int | None = None
    """When the job first held its cards with a priority above high; None: it did not."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """GPU time of a tenant, a user or a job within an interval."""

    key: str
    gpu_s: float
    jobs: int
    attempts: int
    tenant: str


@dataclass(frozen=True, slots=True)
class EndedUsage:
    """GPU time of a tenant's attempts that ended on the same day, or that still run."""

    tenant: str
    gpu_s: float
    mean_us: int
    """When it was used, on average."""


def open(c: Connection, row: AttemptRow) -> bool:  # noqa: A001
    """Record that an attempt holds its cards from now on. False if the attempt is already recorded; its row is
    unchanged.
    """
    return insert_new(c, attempts, row)


def open_all(c: Connection, rows: Sequence[AttemptRow]) -> None:
    """Record several attempts. Rows that already exist are unchanged."""
    insert_all_new(c, attempts, rows)


def close(c: Connection, job_id: str, attempt: int, ended_us: int, how: str, cause: str = "") -> bool:
    """Record that an attempt released its cards. False if it was not open; the first recorded end stays."""
    this = (attempts.c.job_id == job_id) & (attempts.c.attempt == attempt) & attempts.c.ended_us.is_(None)
    return c.execute(update(attempts).where(this).values(ended_us=ended_us, how=how, cause=cause)).rowcount > 0


def forget(c: Connection, job_id: str, attempt: int) -> None:
    """Remove an open attempt that never began."""
    this = (attempts.c.job_id == job_id) & (attempts.c.attempt == attempt) & attempts.c.ended_us.is_(None)
    c.execute(delete(attempts).where(this))


def set_urgent(c: Connection, job_id: str, attempt: int, from_us: int) -> None:
    """Record that a running attempt has a priority above high from now on. An earlier time stays."""
    this = (attempts.c.job_id == job_id) & (attempts.c.attempt == attempt) & attempts.c.urgent_from_us.is_(None)
    c.execute(update(attempts).where(this).values(urgent_from_us=from_us))


def of_job(c: Connection, job_id: str) -> list[AttemptRow]:
    """All attempts of a job, oldest first."""
    query = select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.attempt)
    return [AttemptRow(*row) for row in c.execute(query)]


def times(c: Connection, keys: Collection[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int | None]]:
    """Start and end of these attempts, by job and attempt."""
    found: dict[tuple[str, int], tuple[int, int | None]] = {}
    every = sorted(keys)
    for start in range(0, len(every), _MOST_KEYS):
        these = tuple_(attempts.c.job_id, attempts.c.attempt).in_(every[start : start + _MOST_KEYS])
        query = select(attempts.c.job_id, attempts.c.attempt, attempts.c.started_us, attempts.c.ended_us).where(these)
        found |= {(row[0], row[1]): (row[2], row[3]) for row in c.execute(query)}
    return found


def usage(
    c: Connection,
    by: Literal["tenant", "user", "job"],
    since_us: int,
    until_us: int,
    now_us: int,
    tenants: Collection[str] | None = None,
    limit: int | None = None,
    *,
    urgent: bool = False,
) -> list[UsageRow]:
    """GPU time within the interval, largest first. A running attempt counts up to now. A shared card counts by its
    share. ``urgent``: only the time since the priority of the attempt was above high, even if it was lowered later.
    """
    key = {"tenant": attempts.c.tenant, "user": attempts.c.user, "job": attempts.c.job_id}[by]
    end_us = func.coalesce(attempts.c.ended_us, now_us)
    last_us = case((end_us < until_us, end_us), else_=until_us)
    start_us = attempts.c.urgent_from_us if urgent else attempts.c.started_us
    first_us = case((start_us > since_us, start_us), else_=since_us)
    # Floats, because a year of a large cluster in thousandths times microseconds exceeds 64 bits.
    held = (func.sum(cast(attempts.c.gpu_milli, Float(53)) * (last_us - first_us)) / _MILLI_US_PER_S).label("held")
    query = (
        select(key, held, func.count(distinct(attempts.c.job_id)), func.count(), attempts.c.tenant)
        .where(last_us > first_us)
        # Implied by the condition above, but written so that an index can answer it.
        .where(or_(attempts.c.ended_us > since_us, attempts.c.ended_us.is_(None)))
        .group_by(*dict.fromkeys((key, attempts.c.tenant)))
        .order_by(held.desc(), key)
        .limit(limit)
    )
    if urgent:
        query = query.where(attempts.c.urgent_from_us.is_not(None))
    if tenants is not None:
        query = query.where(attempts.c.tenant.in_(tenants))
    return [UsageRow(*row) for row in c.execute(query)]


def usage_by_end(c: Connection, since_us: int, now_us: int, day_us: int) -> list[EndedUsage]:
    """GPU time of all tenants in one query. A running attempt counts up to now. ``day_us``: attempts that ended within
    such a time are summed."""
    end_us = func.coalesce(attempts.c.ended_us, now_us)
    first_us = case((attempts.c.started_us > since_us, attempts.c.started_us), else_=since_us)
    held = cast(attempts.c.gpu_milli, Float(53)) * (end_us - first_us) / _MILLI_US_PER_S
    age_us = now_us - (cast(end_us, Float(53)) + first_us) / 2
    query = (
        select(attempts.c.tenant, func.sum(held), func.sum(held * age_us) / func.sum(held))
        .where(or_(attempts.c.ended_us > since_us, attempts.c.ended_us.is_(None)))
        .where(end_us > first_us, attempts.c.gpu_milli > 0)
        .group_by(attempts.c.tenant, (end_us - since_us) // day_us)
    )
    return [
        EndedUsage(tenant, float(gpu_s), now_us - round(float(age_us))) for tenant, gpu_s, age_us in c.execute(query)
    ]
