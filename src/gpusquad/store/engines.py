"""What both databases have in common: how JSON is written, and what their errors mean to us."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from gpusquad.model.errors import Invalid
from gpusquad.store.errors import StoreConflict, StoreUnavailable

MOST_READERS = 40
"""As many as the server has threads for requests."""
_IDLE_READERS = 4
_SQLITE_MISUSE = 1
"""A wrong statement or a missing table: trying again does not help."""
_SQLITE_READ_ONLY = 8
_POSTGRESQL_READ_ONLY = "25006"


def make_writer(url: URL, **options: Any) -> Engine:
    """Exactly one connection."""
    return _make(url, True, pool_size=1, max_overflow=0, **options)


def make_reader(url: URL, **options: Any) -> Engine:
    """Connections as they are needed."""
    return _make(url, False, pool_size=_IDLE_READERS, max_overflow=MOST_READERS - _IDLE_READERS, **options)


def _make(url: URL, writes: bool, **options: Any) -> Engine:
    # hide_parameters: hashes of tokens and addresses of notices do not belong in a traceback.
    engine = create_engine(url, json_serializer=_to_json, hide_parameters=True, **options)
    event.listen(engine, "handle_error", lambda context: _translated(context, writes))
    return engine


def _to_json(value: Any) -> str:
    # NaN is not JSON: PostgreSQL would refuse it and SQLite would keep it.
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _translated(context: ExceptionContext, writes: bool) -> Exception | None:
    """The error to raise instead; None: this one."""
    if context.is_pre_ping:  # the pool looks whether a connection still works, and makes another if not
        return None
    wrapped, cause = context.sqlalchemy_exception, context.original_exception
    if isinstance(wrapped, DBAPIError) and (context.is_disconnect or _may_pass(wrapped, writes)):
        return StoreUnavailable(_first_line(cause))
    if isinstance(wrapped, IntegrityError):
        return StoreConflict(_first_line(cause))
    # The drivers themselves refuse what they cannot encode, each in its own way.
    if isinstance(wrapped, DataError) or isinstance(cause, (UnicodeEncodeError, OverflowError)):
        return Invalid("value", f"the database cannot hold it: {_first_line(cause)}")
    return None


def _may_pass(error: DBAPIError, writes: bool) -> bool:
    """Whether it comes from the state that the database is in, and not from what it was asked."""
    sqlite_code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
    if sqlite_code == _SQLITE_READ_ONLY or getattr(error.orig, "sqlstate", None) == _POSTGRESQL_READ_ONLY:
        return writes  # a disk or a standby that takes no writes now; whoever writes while reading is wrong
    return isinstance(error, OperationalError) and sqlite_code != _SQLITE_MISUSE


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
