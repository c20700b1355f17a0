"""When we said that jobs would start, beside when they did."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select, update

from gpusquad.model.units import US_PER_S
from gpusquad.store.rows import put
from gpusquad.store.tables import forecasts


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """A start foretold: a middle and a high quantile, as instants."""

    job_id: str
    made_us: int
    mid_us: int
    high_us: int
    truth_us: int | None = None
    """When it did start; None: not yet."""


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """How good forecasts were."""

    count: int
    within_ratio: float | None
    """Part that started no later than the high quantile. None: no forecast to judge by."""
    median_error_s: float | None
    """Half of the starts were this near to the middle quantile, or nearer."""


def add(c: Connection, row: ForecastRow) -> None:
    """Another forecast for a job; one made at the same moment is replaced."""
    put(c, forecasts, row)


def of_job(c: Connection, job_id: str) -> list[ForecastRow]:
    """In the order in which they were made."""
    query = select(forecasts).where(forecasts.c.job_id == job_id).order_by(forecasts.c.made_us)
    return [ForecastRow(*row) for row in c.execute(query)]


def settle(c: Connection, job_id: str, truth_us: int) -> int:
    """The job started: this is the truth for all its open forecasts; returns how many there were."""
    still_open = (forecasts.c.job_id == job_id) & forecasts.c.truth_us.is_(None)
    return c.execute(update(forecasts).where(still_open).values(truth_us=truth_us)).rowcount


def accuracy(c: Connection, since_us: int) -> ForecastAccuracy:
    """Over the forecasts whose truth came since then."""
    settled = forecasts.c.truth_us >= since_us
    within = func.coalesce(func.sum(case((forecasts.c.truth_us <= forecasts.c.high_us, 1), else_=0)), 0)
    total, kept = c.execute(select(func.count(), within).where(settled)).one()
    if not total:
        return ForecastAccuracy(0, None, None)
    error_us = func.abs(forecasts.c.truth_us - forecasts.c.mid_us)
    # The one in the middle, or the two around it.
    middle = select(error_us).where(settled).order_by(error_us).offset((total - 1) // 2).limit(2 - total % 2)
    errors_us = c.execute(middle).scalars().all()
    return ForecastAccuracy(total, int(kept) / total, sum(errors_us) / len(errors_us) / US_PER_S)
