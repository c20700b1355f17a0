"""SLO attainment of jobs over time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from gpusquad.store.rows import drop_smallest, put
from gpusquad.store.tables import goal_samples


@dataclass(frozen=True, slots=True)
class GoalSample:
    """Attainment of a job's SLO as the card daemon reported it."""

    job_id: str
    at_us: int
    attainment: float | None = None
    """1: the SLO is fully met."""
    weight: float | None = None


def append(c: Connection, rows: Iterable[GoalSample]) -> None:
    put(c, goal_samples, *rows)


def since(c: Connection, at_us: int, limit: int = 20_000) -> list[GoalSample]:
    """The newest samples, oldest first."""
    query = select(goal_samples).where(goal_samples.c.at_us >= at_us).order_by(goal_samples.c.at_us.desc())
    return [GoalSample(*row) for row in c.execute(query.limit(limit))][::-1]


def trim(c: Connection, before_us: int, most: int = 50_000) -> int:
    """Delete older samples. Returns their number."""
    return drop_smallest(c, goal_samples.c.at_us, before_us, most)
