"""Between frozen dataclasses and rows: a dataclass has the columns of its table, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from sqlalchemy import Column, Connection, CursorResult, Table, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite


def values_of(row: Any) -> dict[str, Any]:
    """By column. Not ``asdict``, which would copy all the JSON."""
    return {name: getattr(row, name) for name in names_of(type(row))}


@lru_cache(maxsize=64)
def names_of(kind: type) -> tuple[str, ...]:
    """The columns of a row."""
    return tuple(field.name for field in fields(kind))


def insert_numbered(c: Connection, table: Table, **values: Any) -> int:
    """Insert one row and tell the number it got."""
    return number_of(c.execute(insert(table), values))


def number_of(result: CursorResult) -> int:
    """The number that the inserted row got."""
    return result.inserted_primary_key[0]  # pyright: ignore[reportOptionalSubscript]  (a single insert has one)


def put(c: Connection, table: Table, *rows: Any) -> None:
    """Insert, or replace the rows with the same key."""
    if not rows:
        return
    statement = _insert(c, table)
    keys = [column.name for column in table.primary_key]
    others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    c.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), [values_of(row) for row in rows])


def insert_new(c: Connection, table: Table, row: Any) -> bool:
    """Insert, unless there is one with the same key."""
    statement = _insert(c, table).on_conflict_do_nothing().returning(*table.primary_key)
    return c.execute(statement, values_of(row)).first() is not None


def insert_all_new(c: Connection, table: Table, rows: Sequence[Any]) -> None:
    """Many at once; those with a key that is there already are left out."""
    if rows:
        c.execute(_insert(c, table).on_conflict_do_nothing(), [values_of(row) for row in rows])


def drop_smallest(c: Connection, column: Column[int], below: int, most: int) -> int:
    """Drop rows whose column is below a bound, the smallest first; returns how many.

    Stops after about so many: equal ones go together.
    """
    candidates = select(column).where(column < below).order_by(column)
    last = c.execute(candidates.offset(most - 1).limit(1)).scalar()
    return c.execute(delete(column.table).where(column < below if last is None else column <= last)).rowcount


def _insert(c: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    # One syntax and one meaning; still, SQLAlchemy has it twice.
    return sqlite.insert(table) if c.dialect.name == "sqlite" else postgresql.insert(table)
