"""One database: one writer at a time, any number of readers, one owner."""

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
    ``synchronous``: with NORMAL, SQLite may forget the last moments at a power cut (never at a crash of the server);
    with FULL it does not, and every write waits for the disk. PostgreSQL has its own setting for this.
    ``wait_s``: how long to wait for whoever else holds a lock or all connections.
    """

    def __init__(self, url: str | Path, *, synchronous: Synchronous = "NORMAL", wait_s: float = 5.0) -> None:
        parsed = parse(url)
        self.url = parsed.render_as_string(hide_password=True)
        """For logs: without the password."""
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
        """Bring the schema up to date, whole or not at all."""
        with self.write() as connection:
            migrate.upgrade(connection)

    def own(self) -> None:
        """Claim the database for this server until ``close``, or raise StoreInUse."""
        with self._write_lock:
            self._backend.own()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: committed at the end, undone by any exception.

        One at a time in this process, so that ids of events become visible in the order in which they were given out.
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
        """One consistent view of the database, which cannot be changed through it."""
        try:
            connection = self._backend.reader.connect()
        except PoolTimeout as error:
            raise StoreUnavailable("every connection to the database is in use") from error
        with connection:
            yield connection

    def close(self) -> None:
        """Let go of all connections and of the ownership."""
        self._backend.reader.dispose()
        self._backend.writer.dispose()
        self._backend.release()

    def _begin(self) -> Connection:
        try:
            return self._backend.writer.connect()
        except StoreInUse as error:
            # Our session broke, and with it our claim. Who has it now may be the ghost of that session, or a second
            # server; either way we must not write, and asking again later is right.
            raise StoreUnavailable(str(error)) from error


class _Backend(Protocol):
    writer: Engine
    """One connection, which holds the claim where the claim belongs to a session."""
    reader: Engine

    def own(self) -> None: ...
    def release(self) -> None: ...
