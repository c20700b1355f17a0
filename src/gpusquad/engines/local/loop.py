"""One thread that waits for many things and handles one at a time, so that its data needs no locks."""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable

_log = logging.getLogger(__name__)
_MAX_WAIT_S = 3600.0

Act = Callable[[], None]


class EngineLoop:
    """Calls from other threads, events of handles, and timers."""

    def __init__(self, name: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ, self._woken)
        self._calls: deque[Act] = deque()
        self._timers: list[tuple[float, int, Act]] = []
        self._count = itertools.count()
        self._lock = threading.Lock()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def call(self, act: Act) -> bool:
        """Run this soon, in the order of the calls. Callable from any thread. False: the loop has been closed."""
        with self._lock:
            if self._closing:
                return False
            self._calls.append(act)
            os.eventfd_write(self._wake, 1)
        return True

    def close(self) -> None:
        """Stop the loop and wait for it, from another thread. Pending calls are dropped."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._selector.close()
        os.close(self._wake)

    # From the loop's own thread only.

    def on_readable(self, handle: int, act: Act) -> None:
        self._selector.register(handle, selectors.EVENT_READ, act)

    def on_writable(self, handle: int, act: Act) -> None:
        self._selector.register(handle, selectors.EVENT_WRITE, act)

    def forget(self, handle: int) -> None:
        """Call it before the handle is closed."""
        self._selector.unregister(handle)

    def later(self, delay_s: float, act: Act) -> None:
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._count), act))

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(self._wait_s()):
                # A handle may have been removed by the handler of an earlier one.
                if self._selector.get_map().get(key.fd) is key:
                    _do(key.data)
            while self._timers and self._timers[0][0] <= time.monotonic():
                _do(heapq.heappop(self._timers)[2])

    def _wait_s(self) -> float:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else _MAX_WAIT_S

    def _woken(self) -> None:
        os.eventfd_read(self._wake)
        for _ in range(len(self._calls)):
            if self._closing:
                return
            _do(self._calls.popleft())


def _do(act: Act) -> None:
    """An error in one handler must not end the thread that runs all others."""
    try:
        act()
    except Exception:
        _log.exception("the engine could not finish %s", act)
