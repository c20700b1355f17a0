"""The first forecast of each pending job's start, with the actual start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, select, update

from gpusquad.store.rows import drop_smallest, insert_all_new
from gpusquad.store.tables import jobs, start_forecasts


@dataclass(frozen=True, slots=True)
class StartForecastRow:
    """A forecast of a start as two instants."""

    job_id: str
    tenant: str
    made_us: int
    mid_us: int
    """P50."""
    high_us: int | None
    """P90. None: too little was known."""
    started_us: int | None = None


def add(c: Connection, rows: Sequence[StartForecastRow]) -> None:
    """Add forecasts of jobs that have none yet."""
    insert_all_new(c, start_forecasts, rows)


def settle(c: Connection, job_id: str, started_us: int) -> None:
    """Record the first start."""
    still_open = (start_forecasts.c.job_id == job_id) & start_forecasts.c.started_us.is_(None)
    c.execute(update(start_forecasts).where(still_open).values(started_us=started_us))


def settled(c: Connection, since_us: int, tenant: str | None, limit: int) -> list[StartForecastRow]:
    """Of the jobs that started since then, newest first."""
    query = select(start_forecasts).where(start_forecasts.c.started_us >= since_us)
    if tenant is not None:
        query = query.where(start_forecasts.c.tenant == tenant)
    newest = query.order_by(start_forecasts.c.started_us.desc(), start_forecasts.c.job_id.desc()).limit(limit)
    return [StartForecastRow(*row) for row in c.execute(newest)]


def latest(c: Connection, per_tenant: int) -> list[tuple[StartForecastRow, str]]:
    """The latest of each tenant's that started, and all of jobs that have not ended, in the order of the starts. With
    the users; an empty name: unknown."""
    place = func.row_number().over(partition_by=start_forecasts.c.tenant, order_by=start_forecasts.c.started_us.desc())
    settled = (
        select(start_forecasts.c.job_id, place.label("place"))
        .where(start_forecasts.c.started_us.is_not(None))
        .subquery()
    )
    kept = select(settled.c.job_id).where(settled.c.place <= per_tenant)
    rows = select(start_forecasts, jobs.c.user).outerjoin(jobs, jobs.c.id == start_forecasts.c.job_id)
    is_open = start_forecasts.c.started_us.is_(None) & jobs.c.id.is_not(None) & jobs.c.ended_us.is_(None)
    found = c.execute(rows.where(start_forecasts.c.job_id.in_(kept) | is_open).order_by(start_forecasts.c.started_us))
    return [(StartForecastRow(*row), user or "") for *row, user in found]


def withdraw(c: Connection, job_ids: Iterable[str]) -> None:
    """Delete forecasts of jobs that left the queue without a start: a released one gets another."""
    for job_id in job_ids:
        still_open = (start_forecasts.c.job_id == job_id) & start_forecasts.c.started_us.is_(None)
        c.execute(delete(start_forecasts).where(still_open))


def trim(c: Connection, before_us: int, most: int) -> int:
    """Delete old ones of jobs that started, or ended without a start."""
    started = drop_smallest(c, start_forecasts.c.started_us, before_us, most)
    over = select(jobs.c.id).where(jobs.c.id == start_forecasts.c.job_id, jobs.c.ended_us < before_us).exists()
    never = start_forecasts.c.started_us.is_(None) & (start_forecasts.c.made_us < before_us) & over
    return started + c.execute(delete(start_forecasts).where(never)).rowcount
