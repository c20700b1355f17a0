"""Forecast starts of pending jobs for the queue table, computed beside the scheduler at intervals."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import structlog

from gpusquad.core.explain.forecast import Eta, Replay
from gpusquad.core.state.state import SchedulerState

STEPS = 300
"""Replay steps. Jobs that start later have no forecast in the table (``when`` looks further)."""
MAX_PENDING = 3000
"""Longer queues are not replayed for the table."""
FRESH_S = 2.0
REST = 20.0
"""Pause after a replay, as a multiple of its duration, to use a small part of one core."""
RANGE_S = 0.5
"""If one replay takes longer than this, the second one for the P90 start is skipped."""
_log = structlog.get_logger("gpusquad.etas")


class Etas:
    """Recent forecast starts. They are refreshed when they are requested."""

    def __init__(self, copy: Callable[[], SchedulerState]) -> None:
        self._copy = copy
        self._starts: Mapping[str, Eta] = {}
        self._not_before_s = 0.0
        self._lock = threading.Lock()
        self._is_busy = False

    def starts(self, waiting: int, wait: bool = False) -> Mapping[str, Eta]:
        """Job to forecast start. Waits for a newer forecast only if ``patient``."""
        if waiting == 0 or waiting > MAX_PENDING:
            return {}
        with self._lock:
            due = not self._is_busy and time.monotonic() >= self._not_before_s
            self._is_busy = self._is_busy or due
        if due and wait:
            self._refresh()
        elif due:
            threading.Thread(target=self._refresh, name="etas", daemon=True).start()
        return self._starts

    def _refresh(self) -> None:
        began_s = time.monotonic()
        try:
            self._starts = _forecast(self._copy())
        except Exception:
            _log.exception("starts not forecast")
        took_s = time.monotonic() - began_s
        with self._lock:
            self._is_busy = False
            self._not_before_s = time.monotonic() + max(FRESH_S, REST * took_s)


def _forecast(state: SchedulerState) -> dict[str, Eta]:
    """Of all pending jobs that start within the steps."""
    began_s = time.monotonic()
    mid = _started(Replay(state, "mid"))
    high = _started(Replay(state, "high")) if time.monotonic() - began_s <= RANGE_S else {}
    # Longer runs can let a gang start earlier, so the P90 start is bounded.
    return {job: Eta(at_us, max(at_us, high[job]) if job in high else None) for job, at_us in mid.items()}


def _started(replay: Replay) -> dict[str, int]:
    replay.run({one.job.id for one in replay.state.queue}, STEPS)
    return replay.started
