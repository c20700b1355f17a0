"""When those who wait will start, for the table of the queue: worked out beside the scheduler, now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from gpusquad.core.forecast import Replay
from gpusquad.core.state import State

STEPS = 300
"""Instants looked ahead; who starts later has no forecast in the table (``when`` looks further)."""
MOST_WAITING = 3000
"""A longer queue is not replayed for a table."""
FRESH_S = 2.0
REST = 20.0
"""Times as long as the last replay took before the next: a small part of one core at most."""
_log = structlog.get_logger("gpusquad.etas")


class Etas:
    """Forecast starts as they were a moment ago. Asking for them is what keeps them fresh."""

    def __init__(self, copy: Callable[[], State]) -> None:
        self._copy = copy
        self._starts: Mapping[str, int] = {}
        self._not_before_s = 0.0
        self._lock = threading.Lock()
        self._is_busy = False

    def starts(self, waiting: int, patient: bool = False) -> Mapping[str, int]:
        """Job -> forecast start; never waits for a newer answer, unless patient."""
        if waiting == 0 or waiting > MOST_WAITING:
            return {}
        with self._lock:
            due = not self._is_busy and time.monotonic() >= self._not_before_s
            self._is_busy = self._is_busy or due
        if due and patient:
            self._renew()
        elif due:
            threading.Thread(target=self._renew, name="etas", daemon=True).start()
        return self._starts

    def _renew(self) -> None:
        began_s = time.monotonic()
        try:
            replay = Replay(self._copy(), "mid")
            replay.run({one.job.id for one in replay.state.queue}, STEPS)
            self._starts = replay.started
        except Exception:
            _log.exception("starts could not be forecast")
        took_s = time.monotonic() - began_s
        with self._lock:
            self._is_busy = False
            self._not_before_s = time.monotonic() + max(FRESH_S, REST * took_s)
