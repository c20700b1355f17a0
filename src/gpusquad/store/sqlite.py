"""SQLite in a file, with a write-ahead log so that readers never wait for the writer."""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import URL, Connection, Engine, event

from gpusquad.store.engines import make_reader, make_writer
from gpusquad.store.errors import StoreInUse, StoreUnavailable

Synchronous = Literal["NORMAL", "FULL"]
_MAX_LOG_BYTES = 64 * 2**20
"""A log that a long read made larger is truncated to this size."""


class Sqlite:
    """Engines on one file, and the claim on it: a lock file beside it, which a dead process cannot keep locked."""

    def __init__(self, url: URL, synchronous: Synchronous, wait_s: float) -> None:
        self._path = Path(str(url.database)).absolute()
        self._claim: int | None = None
        _make_file(self._path)
        pragmas = (
            f"PRAGMA busy_timeout = {round(wait_s * 1000)}",
            "PRAGMA journal_mode = WAL",
            f"PRAGMA synchronous = {synchronous}",
            f"PRAGMA journal_size_limit = {_MAX_LOG_BYTES}",
            "PRAGMA foreign_keys = ON",
        )
        self.writer = make_writer(url, pool_timeout=wait_s)
        _configure(self.writer, "BEGIN IMMEDIATE", pragmas)
        self.reader = make_reader(url, pool_timeout=wait_s)
        _configure(self.reader, "BEGIN", (*pragmas, "PRAGMA query_only = ON"))

    def own(self) -> None:
        if self._claim is not None:
            return
        path = self._path.with_name(self._path.name + ".lock")
        claim = _open_private(path)
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(claim, 200, 0).decode(errors="replace").strip()
            os.close(claim)
            raise StoreInUse(f"another server uses {self._path} ({holder or 'unknown process'})") from error
        self._claim = claim
        with suppress(OSError):  # only for the message above: a full disk does not matter here
            os.ftruncate(claim, 0)
            os.pwrite(claim, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)

    def release(self) -> None:
        # The lock file stays. Removing it could remove one that another process has just locked.
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None


def _configure(engine: Engine, begin: str, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        # By default the driver opens a transaction only before the first change, so that earlier reads in it could be
        # out of date. Autocommit leaves transactions to us.
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(pragma)

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


def _make_file(path: Path) -> None:
    # Created here and not by SQLite, so that other users cannot read it. Its log gets the same permissions.
    os.close(_open_private(path))


def _open_private(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnavailable(f"cannot open {path}: {error.strerror}") from error
