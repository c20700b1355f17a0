"""PostgreSQL by psycopg. It must be reached directly or by a pooler that keeps sessions, because a session holds the
claim.
"""

from __future__ import annotations

import os
import socket
from typing import Any

from sqlalchemy import URL, Engine, event

from gpusquad.model.errors import Invalid
from gpusquad.store.engines import make_reader, make_writer
from gpusquad.store.errors import StoreInUse

_CLAIM = 0x67707571
"""Identifies our advisory lock ("gpuq"); the second half of the lock's name is the schema."""
_SCHEMA = "hashtext(coalesce(current_schema(), ''))"
_HOLDER = f"""
    SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.database = a.datid AND a.datname = current_database()
    AND l.classid = {_CLAIM} AND l.objid = ({_SCHEMA}::bigint & 4294967295)::oid
"""


class Postgresql:
    """Engines on one database.

    All writes use one connection, which also holds the claim. If it breaks, both are lost together. A new connection
    can write only if it gets the claim again, so a server that lost its claim cannot write.
    """

    def __init__(self, url: URL, wait_s: float) -> None:
        self._owns = False
        self._wait_ms = round(wait_s * 1000)
        options: dict[str, Any] = {
            "pool_pre_ping": True,
            "pool_timeout": wait_s,
            "connect_args": _connect_options(url, wait_s),
        }
        try:
            self.writer: Engine = make_writer(url, **options)
            self.reader: Engine = make_reader(url, isolation_level="REPEATABLE READ", **options)
        except ModuleNotFoundError as error:
            raise Invalid("database", "psycopg is not installed", "pip install 'gpusquad[postgresql]'") from error
        event.listen(self.writer, "connect", self._on_writer)
        event.listen(self.reader, "connect", self._on_reader)

    def own(self) -> None:
        if self._owns:
            return
        self._owns = True
        self.writer.dispose()
        try:
            self.writer.connect().close()
        except BaseException:
            self._owns = False
            raise

    def release(self) -> None:
        self._owns = False  # the claim was lost with its connection

    def _on_writer(self, connection: Any, _record: object) -> None:
        try:
            connection.execute(f"SET lock_timeout = {self._wait_ms}")
            if self._owns:
                _claim(connection)
            connection.commit()
        except BaseException:
            connection.close()
            raise

    def _on_reader(self, connection: Any, _record: object) -> None:
        connection.read_only = True


def _claim(connection: Any) -> None:
    if not connection.execute(f"SELECT pg_try_advisory_lock({_CLAIM}, {_SCHEMA})").fetchone()[0]:
        holder = connection.execute(_HOLDER).fetchone()
        raise StoreInUse(f"another server uses this database ({holder[0] if holder else 'unknown process'})")


def _connect_options(url: URL, wait_s: float) -> dict[str, Any]:
    """Our defaults, unless the URL sets them: an unreachable host must not block a thread for minutes."""
    ours = {
        "application_name": f"process {os.getpid()} on {socket.gethostname()}"[:63],
        "connect_timeout": max(2, round(wait_s)),  # the library treats 1 as 2
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 25_000,
    }
    return {name: value for name, value in ours.items() if name not in url.query}
