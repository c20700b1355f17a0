"""Audit log: append-only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from gpusquad.store.paging import Page, from_cursor, to_cursor
from gpusquad.store.rows import insert_numbered
from gpusquad.store.tables import audit


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One audited action."""

    id: int
    at_us: int
    actor: str
    action: str
    target: str
    data: dict[str, Any] | None = None


def append(c: Connection, at_us: int, actor: str, action: str, target: str, data: dict[str, Any] | None = None) -> int:
    """Append an entry and return its id. Call it in the transaction of the action itself."""
    return insert_numbered(c, audit, at_us=at_us, actor=actor, action=action, target=target, data=data)


def find(
    c: Connection,
    *,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    since_us: int | None = None,
    until_us: int | None = None,
    limit: int = 100,
    cursor: str | None = None,
) -> Page[AuditRow]:
    """One page, newest first."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit + 1)
    for column, wanted in ((audit.c.actor, actor), (audit.c.action, action), (audit.c.target, target)):
        if wanted is not None:
            query = query.where(column == wanted)
    if since_us is not None:
        query = query.where(audit.c.at_us >= since_us)
    if until_us is not None:
        query = query.where(audit.c.at_us < until_us)
    if cursor is not None:
        query = query.where(audit.c.id < from_cursor(cursor, int)[0])
    found = [AuditRow(*row) for row in c.execute(query)]
    return Page(found[:limit], to_cursor(found[limit - 1].id) if len(found) > limit else None)
