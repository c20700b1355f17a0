"""Database URLs, as users write them."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from gpusquad.model.errors import Invalid

_CURE = "write sqlite:///FILE or postgresql://USER@HOST/NAME"
_DRIVERS = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def parse(url: str | Path) -> URL:
    """The URL with its driver. A path is a SQLite file."""
    if isinstance(url, Path):
        return URL.create("sqlite+pysqlite", database=str(url.expanduser().absolute()))
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # The text stays out of the message, because it may contain a password.
        raise Invalid("database", "cannot read the URL", _CURE) from error
    driver = _DRIVERS.get(parsed.drivername)
    if driver is None:
        raise Invalid("database", f"{parsed.drivername!r} is not supported", _CURE)
    if driver.startswith("sqlite"):
        _check_sqlite(parsed)
    return parsed.set(drivername=driver)


def _check_sqlite(url: URL) -> None:
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise Invalid("database", "names no file", _CURE)
    if url.query:
        raise Invalid("database", f"SQLite takes no {', '.join(sorted(url.query))} in the URL", _CURE)
