"""Slow requests: some run at once, some wait, and the others are refused with a time to retry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from gpusquad.server.errors import Unavailable

T = TypeVar("T")


class SlowRequestPool:
    """Uses its own threads, so that fast requests never wait for slow ones."""

    def __init__(self, at_once: int, waiting: int, wait_s: float = 2.0) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._most = at_once + waiting
        self._inside = 0
        self._wait_s = wait_s

    async def run(self, work: Callable[[], T]) -> T:
        # Counted here, because other requests could enter between asking the limiter and waiting for it.
        if self._inside >= self._most:
            raise Unavailable(f"{self._inside} such requests are in progress", self._wait_s)
        self._inside += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._inside -= 1
