"""Marks on nodes and cards: drained, cordoned, in a maintenance window, under suspicion, faulty."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from gpusquad.store import rows
from gpusquad.store.tables import marks


@dataclass(frozen=True, slots=True)
class MarkRow:
    """One mark on one target."""

    id: str
    kind: str
    """drain (a node), cordon (a card), window (maintenance), or of a card: suspect (waits for a self-test), fault."""
    target: str
    start_us: int
    end_us: int | None = None
    """None: until removed."""
    by: str = ""
    cause: str = ""


def put(c: Connection, row: MarkRow) -> None:
    """Add a mark or replace the one with the same id."""
    rows.put(c, marks, row)


def get(c: Connection, mark_id: str) -> MarkRow | None:
    row = c.execute(select(marks).where(marks.c.id == mark_id)).first()
    return MarkRow(*row) if row else None


def all(c: Connection, kind: str | None = None, target: str | None = None) -> list[MarkRow]:  # noqa: A001
    """Ordered by start."""
    query = select(marks).order_by(marks.c.start_us, marks.c.id)
    if kind is not None:
        query = query.where(marks.c.kind == kind)
    if target is not None:
        query = query.where(marks.c.target == target)
    return [MarkRow(*row) for row in c.execute(query)]


def remove(c: Connection, mark_id: str) -> bool:
    """False if there was none."""
    return c.execute(delete(marks).where(marks.c.id == mark_id)).rowcount > 0


def remove_of(c: Connection, kind: str, target: str) -> int:
    """Remove all marks of a kind from a target. Returns their number."""
    return c.execute(delete(marks).where(marks.c.kind == kind, marks.c.target == target)).rowcount
