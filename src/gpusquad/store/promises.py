"""Promised starts of reserved jobs with the actual ones, and the true delay of heads of the queue."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select, update

from gpusquad.store.rows import insert_new
from gpusquad.store.tables import promises


@dataclass(frozen=True, slots=True)
class PromiseRow:
    """One attempt that had a reservation or was the head of the queue."""

    job_id: str
    attempt: int
    tenant: str
    user: str
    name: str
    made_us: int
    promised_us: int | None = None
    """Latest start by its first reservation. None: it had none."""
    started_us: int | None = None
    head_delay_us: int | None = None
    """How much later it started than without jobs behind it. None: it was not followed as the head."""
    cause: str = ""
    """What delayed it most. Empty: nothing, or not known."""
    cause_job: str = ""
    cause_user: str = ""
    cause_tenant: str = ""


@dataclass(frozen=True, slots=True)
class DelayCause:
    """Why a reserved job starts later: a code, and the job that causes it with its owner."""

    code: str
    job_id: str = ""
    user: str = ""
    tenant: str = ""


def add(c: Connection, row: PromiseRow) -> None:
    """Add it, unless the attempt has one."""
    insert_new(c, promises, row)


def blame(c: Connection, job_id: str, attempt: int, cause: DelayCause, keep: bool = False) -> None:
    """Record what delays it most. ``keep``: unless a cause is recorded already."""
    this = (promises.c.job_id == job_id) & (promises.c.attempt == attempt) & (promises.c.cause != "")
    if keep and c.execute(select(promises.c.job_id).where(this)).first() is not None:
        return
    _change(c, job_id, attempt, cause=cause.code, cause_job=cause.job_id, cause_user=cause.user,
            cause_tenant=cause.tenant)  # fmt: skip


def settle(c: Connection, job_id: str, attempt: int, started_us: int) -> None:
    """Record the actual start."""
    _change(c, job_id, attempt, started_us=started_us)


def withdraw(c: Connection, job_id: str) -> None:
    """Remove what was promised to a job that is no longer pending and did not start."""
    c.execute(delete(promises).where((promises.c.job_id == job_id) & promises.c.started_us.is_(None)))


def set_head_delay(c: Connection, row: PromiseRow) -> None:
    """Record the true delay of a head that has started."""
    add(c, row)
    _change(c, row.job_id, row.attempt, started_us=row.started_us, head_delay_us=row.head_delay_us)


def open_promises(c: Connection) -> dict[str, int]:
    """Pending job to the start that was promised for this attempt."""
    still_open = promises.c.started_us.is_(None) & promises.c.promised_us.is_not(None)
    query = select(promises.c.job_id, promises.c.promised_us).where(still_open).order_by(promises.c.attempt)
    return {row[0]: row[1] for row in c.execute(query)}


def open_since(c: Connection) -> dict[str, int]:
    """Pending job to the time since which it has had a reservation, oldest first."""
    still_open = promises.c.started_us.is_(None) & promises.c.promised_us.is_not(None)
    query = select(promises.c.job_id, promises.c.made_us).where(still_open).order_by(promises.c.made_us)
    return {row[0]: row[1] for row in c.execute(query)}


def settled(c: Connection, since_us: int, tenant: str | None = None, limit: int = 50_000) -> list[PromiseRow]:
    """Starts since then, newest first."""
    query = select(promises).where(promises.c.started_us >= since_us)
    if tenant is not None:
        query = query.where(promises.c.tenant == tenant)
    newest = query.order_by(promises.c.started_us.desc(), promises.c.job_id.desc()).limit(limit)
    return [PromiseRow(*row) for row in c.execute(newest)]


def _change(c: Connection, job_id: str, attempt: int, **values: object) -> None:
    this = (promises.c.job_id == job_id) & (promises.c.attempt == attempt)
    c.execute(update(promises).where(this).values(values))
