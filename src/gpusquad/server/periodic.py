"""A task that runs at an interval in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from gpusquad.store.database import StoreUnavailable

_log = structlog.get_logger("gpusquad.regularly")
_CLOSE_S = 5.0
"""A running task may wait for a store or a daemon, and must not keep the service from ending."""


class PeriodicTask:
    """First run after ``every_s``. A failure is logged as ``complaint``; the next run may succeed."""

    def __init__(self, name: str, every_s: float, do: Callable[[], object], complaint: str) -> None:
        self._every_s, self._do, self._complaint = every_s, do, complaint
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while not self._closing.wait(self._every_s):
            try:
                self._do()
            except (StoreUnavailable, OSError) as error:
                _log.warning(self._complaint, error=str(error))
            except Exception:
                _log.exception(self._complaint)
