"""Policy settings made while the server runs, as numbered revisions. The newest is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from gpusquad.store.rows import insert_numbered
from gpusquad.store.tables import policies

CHOSEN = "chosen"
"""Setting of the revisions that an automatic mode made: the mode it chose."""
_MANY = 10_000


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """Settings in force since a given time."""

    revision: int
    at_us: int
    by: str
    settings: dict[str, Any]
    note: str = ""


def append(c: Connection, at_us: int, by: str, settings: dict[str, Any], note: str = "") -> int:
    """Append a revision and return its number."""
    return insert_numbered(c, policies, at_us=at_us, by=by, settings=settings, note=note)


def latest(c: Connection) -> PolicyRow | None:
    """The revision in force; None: nothing was ever set."""
    return next(iter(all(c, 1)), None)


def latest_by_hand(c: Connection) -> PolicyRow | None:
    """The last revision that an administrator made. None: there is none."""
    return next((row for row in all(c, _MANY) if CHOSEN not in row.settings), None)


def all(c: Connection, limit: int = 100) -> list[PolicyRow]:  # noqa: A001
    """Newest first."""
    query = select(policies).order_by(policies.c.revision.desc()).limit(limit)
    return [PolicyRow(*row) for row in c.execute(query)]
