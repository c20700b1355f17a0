"""Audit log: one row for every change that was requested and made."""

from __future__ import annotations

import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Connection

from gpusquad.server.answers import Who
from gpusquad.store import audit
from gpusquad.store.database import Database
from gpusquad.store.errors import StoreUnavailable

_log = logging.getLogger("gpusquad.audit")
_SECRET = re.compile(r"value|token|secret|password|passwd|key|hash|url|env|command|credential", re.IGNORECASE)
_HIDDEN = "…"
_MAX_TEXT, _MAX_ITEMS, _MAX_DEPTH = 256, 50, 5
_MAX_QUEUED = 10_000


class AuditTrail:
    """Writes inside the transaction of the change where possible, otherwise after it."""

    def __init__(self, database: Database, now_us: Callable[[], int]) -> None:
        self._database = database
        self._now_us = now_us
        self._late: deque[tuple[Any, ...]] = deque(maxlen=_MAX_QUEUED)
        self._lock = threading.Lock()

    def note(self, c: Connection, who: Who, action: str, target: str, data: Mapping[str, Any] | None = None) -> None:
        """Inside the transaction of the change."""
        audit.append(c, *self._row(who, action, target, data))

    def record(self, who: Who, action: str, target: str, data: Mapping[str, Any] | None = None) -> None:
        """After a change made by the scheduler. The change stands, so a failing store must not make it look undone: the
        row is written with the next one."""
        row = self._row(who, action, target, data)
        with self._lock:
            rows = [*self._late, row]
            self._late.clear()
        try:
            with self._database.write() as c:
                for one in rows:
                    audit.append(c, *one)
        except StoreUnavailable:
            _log.warning("audit rows wait for the store: %d", len(rows))
            with self._lock:
                self._late.extendleft(reversed(rows))

    def _row(self, who: Who, action: str, target: str, data: Mapping[str, Any] | None) -> tuple[Any, ...]:
        return self._now_us(), who.user, action, target, None if data is None else redacted(data)


def redacted(data: Any, depth: int = 0) -> Any:
    """The same data, shortened and without possible secrets."""
    if depth >= _MAX_DEPTH:
        return _HIDDEN
    if isinstance(data, Mapping):
        named = list(data.items())[:_MAX_ITEMS]
        return {
            str(name)[:_MAX_TEXT]: _HIDDEN if _SECRET.search(str(name)) and value else redacted(value, depth + 1)
            for name, value in named
        }
    if isinstance(data, (list, tuple)):
        return [redacted(value, depth + 1) for value in data[:_MAX_ITEMS]]
    if isinstance(data, str):
        return data if len(data) <= _MAX_TEXT else data[: _MAX_TEXT - 1] + _HIDDEN
    return data if data is None or isinstance(data, (bool, int, float)) else str(data)[:_MAX_TEXT]
