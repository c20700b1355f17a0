"""Finds jobs for a caller. Jobs that the caller may not see are not found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlalchemy import ColumnElement, Connection, select

from gpusquad.server import permissions
from gpusquad.server.answers import Who
from gpusquad.server.errors import Conflict, Forbidden, NotFound
from gpusquad.server.ids import LENGTH
from gpusquad.store import jobs
from gpusquad.store.jobs import UNFINISHED_STATES, JobFilter, JobRow
from gpusquad.store.tables import jobs as job_table

SHORTEST_PART = 6
_SHOWN = [column for column in job_table.c if column.name not in ("spec", "stop")]


def job_seen(c: Connection, ref: str, who: Who) -> JobRow:
    """By id, by a prefix or suffix of it, or by name: the one unfinished job of that name, otherwise the latest."""
    found = (
        _by_id(c, ref.lower(), who)
        or _by_name(c, ref, who, UNFINISHED_STATES, most=2)
        or _by_end(c, ref.lower(), who)
        or _by_name(c, ref, who, None, most=1)
    )
    if not found:
        raise NotFound(f"there is no job {ref!r}", field="job", cure="gpusquad history lists the jobs you may see")
    if len(found) > 1:
        listed = ", ".join(row.id for row in found)
        raise Conflict(f"{ref!r} matches {listed} and others", field="job", cure="give the whole id")
    return found[0]


def job_owned(c: Connection, ref: str, who: Who) -> JobRow:
    """A job that the caller may change or stop."""
    return _allowed(job_seen(c, ref, who), who, permissions.may_act, "change or stop it")


def job_with_logs(c: Connection, ref: str, who: Who) -> JobRow:
    """A job whose output and source the caller may read."""
    return _allowed(job_seen(c, ref, who), who, permissions.may_read_logs, "read its output")


def rows_of(c: Connection, ids: Sequence[str]) -> dict[str, JobRow]:
    """Existing jobs of these ids, without their specs: lists do not show them, and they are most of a job."""
    if not ids:
        return {}
    found = c.execute(select(*_SHOWN).where(job_table.c.id.in_(ids))).mappings()
    return {row["id"]: JobRow(**row) for row in found}


def ids_in(c: Connection, states: Collection[str], tenant: str | None, most: int) -> list[str]:
    """Jobs in rare states, oldest first. The tenant is compared here, because the store would read all jobs the tenant
    ever had."""
    few = select(job_table.c.id, job_table.c.tenant).where(job_table.c.state.in_(states)).order_by(job_table.c.sequence)
    return [row.id for row in c.execute(few) if tenant in (None, row.tenant)][:most]


def names_of(c: Connection, ids: Collection[str]) -> dict[str, str]:
    """Only the names, because there are many events."""
    if not ids:
        return {}
    found = c.execute(select(job_table.c.id, job_table.c.name).where(job_table.c.id.in_(ids)))
    return {row.id: row.name for row in found}


def ids_seen(c: Connection, ids: Collection[str], who: Who) -> set[str]:
    """Those of these jobs that the caller may see."""
    if who.is_admin or not ids:
        return set(ids)
    seen = select(job_table.c.id).where(job_table.c.id.in_(ids), job_table.c.tenant == who.tenant)
    return set(c.execute(seen).scalars())


def _by_id(c: Connection, ref: str, who: Who) -> list[JobRow]:
    if len(ref) == LENGTH:
        row = jobs.get(c, ref)
        return [row] if row is not None and permissions.may_see(who, row) else []
    begins = (job_table.c.id >= ref) & (job_table.c.id < ref + "\x7f")
    return _first_two(c, begins, who) if _is_part(ref) else []


def _by_end(c: Connection, ref: str, who: Who) -> list[JobRow]:
    """Ids start with the time, so suffixes distinguish jobs of one day. Reads every id, so it is tried last."""
    return _first_two(c, job_table.c.id.endswith(ref), who) if _is_part(ref) else []


def _is_part(ref: str) -> bool:
    return SHORTEST_PART <= len(ref) < LENGTH and ref.isalnum() and ref.isascii()


def _first_two(c: Connection, condition: ColumnElement[bool], who: Who) -> list[JobRow]:
    """Two are enough to know that it is not unique."""
    query = select(job_table).where(condition).order_by(job_table.c.id).limit(2)
    if not who.is_admin:
        query = query.where(job_table.c.tenant == who.tenant)
    return [JobRow(*row) for row in c.execute(query)]


def _by_name(c: Connection, name: str, who: Who, states: Sequence[str] | None, most: int) -> list[JobRow]:
    tenants = None if who.is_admin else (who.tenant,)
    return list(jobs.find(c, JobFilter(states, tenants, name=name), limit=most).items)


def _allowed(row: JobRow, who: Who, may: Callable[[Who, JobRow], bool], doing: str) -> JobRow:
    if not may(who, row):
        raise Forbidden(f"job {row.id} belongs to {row.user}", cure=f"only its owner or an administrator may {doing}")
    return row
