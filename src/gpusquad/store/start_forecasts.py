"""The first forecast of each pending job's start, with the actual start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

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
    """P90. None: the queue was too long to compute it."""
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


def trim(c: Connection, before_us: int, most: int) -> int:
    """Delete old ones of jobs that started, or ended without a start."""
    started = drop_smallest(c, start_forecasts.c.started_us, before_us, most)
    over = select(jobs.c.id).where(jobs.c.id == start_forecasts.c.job_id, jobs.c.ended_us < before_us).exists()
    never = start_forecasts.c.started_us.is_(None) & (start_forecasts.c.made_us < before_us) & over
    return started + c.execute(delete(start_forecasts).where(never)).rowcount
