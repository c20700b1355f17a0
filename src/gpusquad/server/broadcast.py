"""Wakes streams when something happened. They read what happened from the store, so nothing is queued or lost here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Broadcast:
    """Rung from any thread, awaited on the event loop. A slow reader costs one flag."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bells: set[Bell] = set()
        self._is_ringing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self, *_: object) -> None:
        """Something was written. Cheap: many calls before the next loop iteration count as one. Ignores its
        argument."""
        with self._lock:
            loop = self._loop
            if self._is_ringing or loop is None or not self._bells:
                return
            self._is_ringing = True
        try:
            loop.call_soon_threadsafe(self._ring)
        except RuntimeError:  # the loop has closed, so there are no listeners
            with self._lock:
                self._is_ringing = False

    @contextmanager
    def listening(self) -> Iterator[Bell]:
        """For one stream. Call it on the event loop."""
        bell = Bell()
        with self._lock:
            self._loop = asyncio.get_running_loop()
            self._is_ringing = False
            self._bells.add(bell)
        try:
            yield bell
        finally:
            with self._lock:
                self._bells.discard(bell)

    def close(self) -> None:
        """End every listening stream, from any thread: an HTTP server waits for its streams before it stops."""
        with self._lock:
            loop = self._loop
            for bell in self._bells:
                bell.is_closed = True
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        with self._lock:
            self._is_ringing = False
            bells = tuple(self._bells)
        for bell in bells:
            bell.ring()


class Bell:
    """Flag of one listener. A ring without a waiter is seen at the next wait."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.is_closed = False
        """The service is stopping, and streams end."""

    def ring(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether it rang within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
