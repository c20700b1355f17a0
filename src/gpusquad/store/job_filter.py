"""Filter and order of job lists."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeVar

from sqlalchemy import Column, ColumnElement, Select, or_, tuple_

from gpusquad.model.errors import Invalid
from gpusquad.store.paging import from_cursor
from gpusquad.store.tables import jobs

S = TypeVar("S", bound=Select)
Sort = Literal["-submitted", "submitted", "-ended"]
_SORTS: dict[str, tuple[Column[int], bool]] = {
    "-submitted": (jobs.c.submitted_us, True),
    "submitted": (jobs.c.submitted_us, False),
    "-ended": (jobs.c.ended_us, True),
}


@dataclass(frozen=True, slots=True)
class JobFilter:
    """All given conditions must hold. An empty collection of states, tenants or users matches nothing."""

    states: Collection[str] | None = None
    tenants: Collection[str] | None = None
    users: Collection[str] | None = None
    name: str | None = None
    group_id: str | None = None
    text: str | None = None
    """Substring of the name, id, user or cause; case-insensitive."""
    since_us: int | None = None
    """Submitted (with "-ended": ended) at or after."""
    until_us: int | None = None
    """Submitted (with "-ended": ended) before."""
    sort: Sort = "-submitted"
    """"-": newest first. "-ended" leaves out jobs without an end."""


ANY = JobFilter()


def ordered(where: JobFilter) -> tuple[Column[int], tuple[ColumnElement, ColumnElement]]:
    """The time column to order by, and the complete order; ids break ties."""
    key, newest_first = _sort_of(where)
    return key, ((key.desc(), jobs.c.id.desc()) if newest_first else (key.asc(), jobs.c.id.asc()))


def restricted(query: S, where: JobFilter, cursor: str | None = None) -> S:
    """The query restricted to these jobs; with a cursor, to those after it."""
    key, newest_first = _sort_of(where)
    conditions: list[ColumnElement[bool]] = []
    for column, wanted in ((jobs.c.state, where.states), (jobs.c.tenant, where.tenants), (jobs.c.user, where.users)):
        if wanted is not None:
            # An index yields its rows in order only if the preceding column has a single value.
            conditions.append(column == next(iter(wanted)) if len(wanted) == 1 else column.in_(wanted))
    if where.name is not None:
        conditions.append(jobs.c.name == where.name)
    if where.group_id is not None:
        conditions.append(jobs.c.group_id == where.group_id)
    if where.text:
        places = (jobs.c.name, jobs.c.id, jobs.c.user, jobs.c.cause)
        conditions.append(or_(*(place.icontains(where.text, autoescape=True) for place in places)))
    if where.since_us is not None:
        conditions.append(key >= where.since_us)
    if where.until_us is not None:
        conditions.append(key < where.until_us)
    if key.nullable:
        conditions.append(key.is_not(None))
    if cursor is not None:
        here, there = tuple_(key, jobs.c.id), tuple_(*_position(where, cursor))
        conditions.append(here < there if newest_first else here > there)
    return query.where(*conditions)


def _sort_of(where: JobFilter) -> tuple[Column[int], bool]:
    if where.sort not in _SORTS:
        raise Invalid("sort", f"{where.sort!r} is none of {', '.join(_SORTS)}")
    return _SORTS[where.sort]


def _position(where: JobFilter, cursor: str) -> tuple[int, str]:
    sort, time_us, job_id = from_cursor(cursor, str, int, str)
    if sort != where.sort:
        raise Invalid("cursor", f"belongs to the order {sort!r}", "keep sort as it was, or start again without it")
    return time_us, job_id
