"""Delivers reports from a thread of its own and retries until they are accepted."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from gpusquad.core.ports import Report
from gpusquad.engines.local.names import Key

_log = logging.getLogger(__name__)
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 10.0
_CLOSE_S = 5.0
"""The receiver of the last report may be waiting for the caller of close."""


class ReportQueue:
    """Reports on one attempt arrive in order. One that is not accepted delays that attempt only."""

    def __init__(self, on_report: Callable[[Report], None]) -> None:
        self._on_report = on_report
        self._waiting: dict[Key, deque[Report]] = {}
        self._due: list[tuple[float, int, Key, float]] = []
        """Due time, sequence number, attempt, and the wait before the next retry."""
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="gpusquad-reports", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def send(self, report: Report) -> None:
        key = (report.job_id, report.attempt)
        with self._changed:
            is_first = key not in self._waiting
            self._waiting.setdefault(key, deque()).append(report)
            if is_first:
                self._schedule(key, 0.0, _FIRST_PAUSE_S)

    def close(self) -> None:
        """Reports that were not accepted are found again by `recover`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            key, pause_s = due
            taken = self._deliver(self._waiting[key][0], pause_s)
            with self._changed:
                if taken:
                    self._waiting[key].popleft()
                if not self._waiting[key]:
                    del self._waiting[key]
                elif taken:
                    self._schedule(key, 0.0, _FIRST_PAUSE_S)
                else:
                    self._schedule(key, pause_s, min(2 * pause_s, _LONGEST_PAUSE_S))

    def _next(self) -> tuple[Key, float] | None:
        with self._changed:
            while not self._closing:
                now_s = time.monotonic()
                if self._due and self._due[0][0] <= now_s:
                    _, _, key, pause_s = heapq.heappop(self._due)
                    return key, pause_s
                self._changed.wait(self._due[0][0] - now_s if self._due else None)
        return None

    def _deliver(self, report: Report, pause_s: float) -> bool:
        try:
            self._on_report(report)
        except Exception:
            _log.exception("%s was not taken; next try in %.1f s", report, pause_s)
            return False
        return True

    def _schedule(self, key: Key, delay_s: float, pause_s: float) -> None:
        heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._count), key, pause_s))
        self._changed.notify()
