"""What both databases have in common: JSON encoding and the translation of their errors."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from gpusquad.model.errors import Invalid
from gpusquad.store.errors import StoreConflict, StoreUnavailable

MAX_READERS = 40
"""Equal to the server's number of request threads."""
_IDLE_READERS = 4
_SQLITE_MISUSE = 1
"""A wrong statement or a missing table. A retry does not help."""
_SQLITE_READ_ONLY = 8
_POSTGRESQL_READ_ONLY = "25006"


def make_writer(url: URL, **options: Any) -> Engine:
    """Exactly one connection."""
    return _make(url, True, pool_size=1, max_overflow=0, **options)


def make_reader(url: URL, **options: Any) -> Engine:
    """Connections as they are needed."""
    return _make(url, False, pool_size=_IDLE_READERS, max_overflow=MAX_READERS - _IDLE_READERS, **options)


def _make(url: URL, writes: bool, **options: Any) -> Engine:
    # hide_parameters keeps token hashes and notice addresses out of tracebacks.
    engine = create_engine(url, json_serializer=_to_json, hide_parameters=True, **options)
    event.listen(engine, "handle_error", lambda context: _translated(context, writes))
    return engine


def _to_json(value: Any) -> str:
    # NaN is not JSON: PostgreSQL would refuse it, SQLite would store it.
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _translated(context: ExceptionContext, writes: bool) -> Exception | None:
    """The error to raise instead, or None to raise the original."""
    if context.is_pre_ping:  # the pool checks a connection before use and replaces it if broken
        return None
    wrapped, cause = context.sqlalchemy_exception, context.original_exception
    if isinstance(wrapped, DBAPIError) and (context.is_disconnect or _may_pass(wrapped, writes)):
        return StoreUnavailable(_first_line(cause))
    if isinstance(wrapped, IntegrityError):
        return StoreConflict(_first_line(cause))
    # Each driver refuses values that it cannot encode with an error of its own.
    if isinstance(wrapped, DataError) or isinstance(cause, (UnicodeEncodeError, OverflowError)):
        return Invalid("value", f"the database cannot hold it: {_first_line(cause)}")
    return None


def _may_pass(error: DBAPIError, writes: bool) -> bool:
    """Whether the error comes from the state of the database, not from the request."""
    sqlite_code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if sqlite_code == _SQLITE_READ_ONLY or getattr(error.orig, "sqlstate", None) == _POSTGRESQL_READ_ONLY:
        return writes  # a disk or standby that accepts no writes now
    return isinstance(error, OperationalError) and sqlite_code != _SQLITE_MISUSE


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
