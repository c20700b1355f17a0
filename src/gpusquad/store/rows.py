"""Conversion between frozen dataclasses and rows. A dataclass has the columns of its table, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, CursorResult, Table, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite


def values_of(row: Any) -> dict[str, Any]:
    """Values by column. Not ``asdict``, which would copy all the JSON."""
    return {name: getattr(row, name) for name in names_of(type(row))}


@lru_cache(maxsize=64)
def names_of(kind: type) -> tuple[str, ...]:
    """Columns of a row."""
    return tuple(field.name for field in fields(kind))


def insert_numbered(c: Connection, table: Table, **values: Any) -> int:
    """Insert a row and return its number."""
    return number_of(c.execute(insert(table), values))


def number_of(result: CursorResult) -> int:
    """Number of the inserted row."""
    return result.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]  (a single insert has one)


def put(c: Connection, table: Table, *rows: Any) -> None:
    """Insert rows, replacing those with the same key."""
    if not rows:
        return
    statement = _insert(c, table)
    keys = [column.name for column in table.primary_key]
    others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    c.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), [values_of(row) for row in rows])


def insert_new(c: Connection, table: Table, row: Any) -> bool:
    """Insert a row unless its key exists."""
    statement = _insert(c, table).on_conflict_do_nothing().returning(*table.primary_key)
    return c.execute(statement, values_of(row)).first() is not None


def insert_all_new(c: Connection, table: Table, rows: Sequence[Any]) -> None:
    """Insert rows, skipping those whose key exists."""
    if rows:
        c.execute(_insert(c, table).on_conflict_do_nothing(), [values_of(row) for row in rows])


def drop_smallest(c: Connection, column: Column[int], below: int, most: int) -> int:
    """Delete rows whose column is below a bound, smallest first. Returns their number.

    Stops at about ``most`` rows; rows with equal values are deleted together.
    """
    candidates = select(column).where(column < below).order_by(column)
    last = c.execute(candidates.offset(most - 1).limit(1)).scalar()
    return c.execute(delete(column.table).where(column < below if last is None else column <= last)).rowcount


def _insert(c: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    # SQLAlchemy defines the same statement once per dialect.
    return sqlite.insert(table) if c.dialect.name == "sqlite" else postgresql.insert(table)
