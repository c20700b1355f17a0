"""Start forecasts with the actual start times."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select, update

from gpusquad.model.units import US_PER_S
from gpusquad.store.rows import put
from gpusquad.store.tables import forecasts


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """Forecast of a start: a middle and a high quantile, as instants."""

    job_id: str
    made_us: int
    mid_us: int
    high_us: int
    truth_us: int | None = None
    """Actual start; None: not started yet."""


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Accuracy of start forecasts."""

    count: int
    within_ratio: float | None
    """Fraction of jobs that started by the high quantile. None: no forecast to judge."""
    median_error_s: float | None
    """Median distance between the actual start and the middle quantile."""
    median_late_s: float | None
    """The same with its sign: negative if most started before it."""


def add(c: Connection, row: ForecastRow) -> None:
    """Add a forecast for a job. It replaces one made at the same instant."""
    put(c, forecasts, row)


def of_job(c: Connection, job_id: str) -> list[ForecastRow]:
    """Oldest first."""
    query = select(forecasts).where(forecasts.c.job_id == job_id).order_by(forecasts.c.made_us)
    return [ForecastRow(*row) for row in c.execute(query)]


def open_promises(c: Connection) -> dict[str, int]:
    """Pending job -> the start that it was promised first."""
    query = select(forecasts.c.job_id, forecasts.c.high_us).where(forecasts.c.truth_us.is_(None))
    promises: dict[str, int] = {}
    for job_id, high_us in c.execute(query.order_by(forecasts.c.made_us)):
        promises.setdefault(job_id, high_us)
    return promises


def settle(c: Connection, job_id: str, truth_us: int) -> int:
    """Record the actual start in all open forecasts of the job. Returns their number."""
    still_open = (forecasts.c.job_id == job_id) & forecasts.c.truth_us.is_(None)
    return c.execute(update(forecasts).where(still_open).values(truth_us=truth_us)).rowcount


def accuracy(c: Connection, since_us: int) -> ForecastAccuracy:
    """Accuracy of the forecasts whose job started since then."""
    settled = forecasts.c.truth_us >= since_us
    within = func.coalesce(func.sum(case((forecasts.c.truth_us <= forecasts.c.high_us, 1), else_=0)), 0)
    total, kept = c.execute(select(func.count(), within).where(settled)).one()
    if not total:
        return ForecastAccuracy(0, None, None, None)
    late_us = forecasts.c.truth_us - forecasts.c.mid_us
    error_s, late_s = (_median_s(c, value, since_us, total) for value in (func.abs(late_us), late_us))
    return ForecastAccuracy(total, int(kept) / total, error_s, late_s)


def _median_s(c: Connection, value_us: ColumnElement[int], since_us: int, total: int) -> float:
    """The middle value, or the mean of the two around it."""
    middle = select(value_us).where(forecasts.c.truth_us >= since_us).order_by(value_us)
    found_us = c.execute(middle.offset((total - 1) // 2).limit(2 - total % 2)).scalars().all()
    return sum(found_us) / len(found_us) / US_PER_S
