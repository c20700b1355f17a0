"""One thread that waits for many things and does one at a time, so that what it touches needs no locks."""

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
_MOST_WAIT_S = 3600.0

Act = Callable[[], None]


class EngineLoop:
    """Calls from other threads, events of handles, and things to do later."""

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
        """From any thread: do this soon, in the order of the calls. False: the loop has been closed."""
        with self._lock:
            if self._closing:
                return False
            self._calls.append(act)
            os.eventfd_write(self._wake, 1)
        return True

    def close(self) -> None:
        """From another thread: stop, and wait until it has. What was not done yet is not done."""
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
        """To be called before the handle is closed."""
        self._selector.unregister(handle)

    def later(self, delay_s: float, act: Act) -> None:
        heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._count), act))

    def _run(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(self._wait_s()):
                # A handle may have been forgotten by what was done for one before it.
                if self._selector.get_map().get(key.fd) is key:
                    _do(key.data)
            while self._timers and self._timers[0][0] <= time.monotonic():
                _do(heapq.heappop(self._timers)[2])

    def _wait_s(self) -> float:
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else _MOST_WAIT_S

    def _woken(self) -> None:
        os.eventfd_read(self._wake)
        for _ in range(len(self._calls)):
            if self._closing:
                return
            _do(self._calls.popleft())


def _do(act: Act) -> None:
    """A mistake in one thing must not end the thread that does all others."""
    try:
        act()
    except Exception:
        _log.exception("the engine could not finish %s", act)
