"""Run-time predictions with the actual run times, and past runs to train predictors on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, and_, or_, select, update

from gpusquad.store.rows import put
from gpusquad.store.tables import attempts, jobs, run_forecasts

CUT = ("timed_out", "cancelled", "preempted", "lost")
"""Ends imposed from outside. The run would have taken longer, so its prediction is not judged."""


@dataclass(frozen=True, slots=True)
class RunForecastRow:
    """Predicted run time of one attempt. ``levels`` is empty if nothing was known."""

    job_id: str
    attempt: int
    made_us: int
    tenant: str
    user: str
    source: str
    confidence: float = 0.0
    estimate_us: int | None = None
    truth_us: int | None = None
    """Time on its cards. None: not finished, or it never had cards."""
    how: str = ""
    """How it ended."""
    settled_us: int | None = None
    peak_memory_bytes: int | None = None
    cpu_milli: int | None = None
    levels: list[float] = field(default_factory=list)
    values_us: list[int] = field(default_factory=list)
    host_memory_bytes: int | None = None
    """Peak main memory of one task."""
    cards_used: int | None = None
    """Cards on which its processes held memory."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Outcome of an attempt."""

    job_id: str
    attempt: int
    truth_us: int
    how: str
    settled_us: int
    peak_memory_bytes: int | None = None
    cpu_milli: int | None = None
    host_memory_bytes: int | None = None
    cards_used: int | None = None


@dataclass(frozen=True, slots=True)
class PastRow:
    """One finished run, with its job as the core knows it."""

    job_id: str
    attempt: int
    started_us: int
    ended_us: int
    how: str
    kept_us: int
    """Work of earlier attempts of the job that was not lost."""
    is_last: bool
    core: dict[str, Any]
    peak_memory_bytes: int | None
    cpu_milli: int | None
    host_memory_bytes: int | None = None
    result: dict[str, Any] | None = None
    """How the job ended, or its latest attempt."""
    resolved: dict[str, Any] | None = None
    """What the service chose for the job."""

    @property
    def key(self) -> RunKey:
        return self.ended_us, self.job_id, self.attempt


RunKey = tuple[int, str, int]
"""End time, job and attempt: the order in which predictors learn from runs."""
BEFORE_ALL: RunKey = (-1, "", 0)


def add(c: Connection, rows: Iterable[RunForecastRow]) -> None:
    """Store one prediction per attempt. A later one, made after the job was changed, replaces the first."""
    put(c, run_forecasts, *rows)


def of_job(c: Connection, job_id: str) -> list[RunForecastRow]:
    """First attempt first."""
    query = select(run_forecasts).where(run_forecasts.c.job_id == job_id).order_by(run_forecasts.c.attempt)
    return [RunForecastRow(*row) for row in c.execute(query)]


def settle(c: Connection, truth: Truth) -> bool:
    """Record that the attempt released its cards. False if there is no prediction or the run time is already known."""
    this = (run_forecasts.c.job_id == truth.job_id) & (run_forecasts.c.attempt == truth.attempt)
    values = {
        "truth_us": truth.truth_us, "how": truth.how, "settled_us": truth.settled_us,
        "peak_memory_bytes": truth.peak_memory_bytes, "cpu_milli": truth.cpu_milli,
        "host_memory_bytes": truth.host_memory_bytes, "cards_used": truth.cards_used,
    }  # fmt: skip
    return (
        c.execute(update(run_forecasts).where(this & run_forecasts.c.settled_us.is_(None)).values(values)).rowcount > 0
    )


def settled(
    c: Connection, since_us: int, tenant: str | None = None, source: str | None = None, limit: int = 50_000,
    with_cut: bool = True,
) -> list[RunForecastRow]:  # fmt: skip
    """Predictions whose run ended since then, newest first."""
    query = select(run_forecasts).where(run_forecasts.c.settled_us >= since_us)
    if tenant is not None:
        query = query.where(run_forecasts.c.tenant == tenant)
    if source is not None:
        query = query.where(run_forecasts.c.source == source)
    if not with_cut:
        query = query.where(run_forecasts.c.how.not_in(CUT))
    newest = query.order_by(run_forecasts.c.settled_us.desc(), run_forecasts.c.job_id.desc()).limit(limit)
    return [RunForecastRow(*row) for row in c.execute(newest)]


# -- what there is to learn from -----------------------------------------------------------------------------------


def first_to_learn(c: Connection, newest: int) -> RunKey:
    """The position before the newest ``most`` runs."""
    keys = attempts.c.ended_us, attempts.c.job_id, attempts.c.attempt
    over = select(*keys).where(attempts.c.ended_us.is_not(None))
    row = c.execute(over.order_by(*(key.desc() for key in keys)).offset(newest).limit(1)).first()
    return BEFORE_ALL if row is None else (row[0], row[1], row[2])


def is_known(c: Connection, key: RunKey) -> bool:
    """Whether this store recorded the end of that run."""
    ended_us, job_id, attempt = key
    this = (attempts.c.job_id == job_id) & (attempts.c.attempt == attempt) & (attempts.c.ended_us == ended_us)
    return c.execute(select(attempts.c.job_id).where(this)).first() is not None


def past_runs(c: Connection, after: RunKey, limit: int) -> Sequence[PastRow]:
    """Runs that ended after that one, oldest first."""
    ended_us, job_id, attempt = after
    a = attempts.c
    later = or_(
        a.ended_us > ended_us,
        and_(a.ended_us == ended_us, or_(a.job_id > job_id, and_(a.job_id == job_id, a.attempt > attempt))),
    )
    same = (run_forecasts.c.job_id == a.job_id) & (run_forecasts.c.attempt == a.attempt)
    query = (
        select(a.job_id, a.attempt, a.started_us, a.ended_us, a.how, jobs.c.kept_us, jobs.c.attempt == a.attempt,
               jobs.c.core, run_forecasts.c.peak_memory_bytes, run_forecasts.c.cpu_milli,
               run_forecasts.c.host_memory_bytes, jobs.c.result, jobs.c.resolved)
        .join(jobs, jobs.c.id == a.job_id)
        .outerjoin(run_forecasts, same)
        # Implied by the next condition, but written so that an index can answer it.
        .where(a.ended_us >= ended_us)
        .where(later)
        .order_by(a.ended_us, a.job_id, a.attempt)
        .limit(limit)
    )  # fmt: skip
    return [PastRow(*row[:6], bool(row[6]), *row[7:]) for row in c.execute(query)]
