"""Small values stored by name, for example the latest time ever seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select

from gpusquad.store import rows
from gpusquad.store.tables import settings


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One value, as JSON."""

    key: str
    value: Any


def get(c: Connection, key: str, default: Any = None) -> Any:
    """The value, or the default if there is none."""
    row = c.execute(select(settings.c.value).where(settings.c.key == key)).first()
    return row[0] if row else default


def put(c: Connection, key: str, value: Any) -> None:
    """Store a value, replacing the previous one."""
    rows.put(c, settings, SettingRow(key, value))


def remove(c: Connection, key: str) -> bool:
    """False if there was none."""
    return c.execute(delete(settings).where(settings.c.key == key)).rowcount > 0
