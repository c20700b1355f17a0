"""The database: one writer at a time, any number of readers, one owner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gpusquad.store import migrate
from gpusquad.store.errors import StoreInUse, StoreTooNew, StoreUnavailable
from gpusquad.store.postgresql import Postgresql
from gpusquad.store.sqlite import Sqlite, Synchronous
from gpusquad.store.urls import parse

__all__ = ["Database", "StoreInUse", "StoreTooNew", "StoreUnavailable"]


class Database:
    """Connections to one database, for all threads of a process.

    ``url``: ``sqlite:///FILE`` or ``postgresql://…``; a path is a SQLite file.

    ``synchronous``: with NORMAL, SQLite can lose the last writes in a power failure, but not when the server crashes.
    With FULL it loses nothing, and every write waits for the disk. PostgreSQL has its own setting for this.

    ``wait_s``: how long to wait for a lock or a free connection.
    """

    def __init__(self, url: str | Path, *, synchronous: Synchronous = "NORMAL", wait_s: float = 5.0) -> None:
        parsed = parse(url)
        self.url = parsed.render_as_string(hide_password=True)
        """The URL without its password, for logs."""
        self._backend: _Backend
        if parsed.get_backend_name() == "sqlite":
            self._backend = Sqlite(parsed, synchronous, wait_s)
        else:
            self._backend = Postgresql(parsed, wait_s)
        self._write_lock = threading.Lock()
        self._writing_thread: int | None = None

    def __repr__(self) -> str:
        return f"Database({self.url!r})"

    def migrate(self) -> None:
        """Bring the schema up to date, completely or not at all."""
        with self.write() as connection:
            migrate.upgrade(connection)

    def own(self) -> None:
        """Claim the database for this server until ``close``, or raise StoreInUse."""
        with self._write_lock:
            self._backend.own()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: committed at the end, rolled back by any exception.

        Only one is open at a time in this process, so that event ids become visible in ascending order.
        """
        if self._writing_thread == threading.get_ident():
            raise RuntimeError("a write inside a write would wait for itself; pass the connection on")
        with self._write_lock:
            self._writing_thread = threading.get_ident()
            try:
                with self._begin() as connection, connection.begin():
                    yield connection
            finally:
                self._writing_thread = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent, read-only view of the database."""
        try:
            connection = self._backend.reader.connect()
        except PoolTimeout as error:
            raise StoreUnavailable("every connection to the database is in use") from error
        with connection:
            yield connection

    def close(self) -> None:
        """Release all connections and the claim."""
        self._backend.reader.dispose()
        self._backend.writer.dispose()
        self._backend.release()

    def _begin(self) -> Connection:
        try:
            return self._backend.writer.connect()
        except StoreInUse as error:
            # The session broke, and the claim with it. The claim may now be held by the remains of that session or by a
            # second server. In both cases this server must not write; asking again later is correct.
            raise StoreUnavailable(str(error)) from error


class _Backend(Protocol):
    writer: Engine
    """The writer's connection. Where the claim belongs to a session, this connection holds it."""
    reader: Engine

    def own(self) -> None: ...
    def release(self) -> None: ...
