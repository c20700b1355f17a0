"""Limit on concurrent slow requests, for example those that replay the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from gpusquad.server.errors import Unavailable

T = TypeVar("T")


class SlowRequestPool:
    """Runs up to ``concurrent`` slow requests, keeps up to ``waiting`` more waiting, and refuses any further one.

    It has its own limit on threads, so that fast requests never wait for slow ones.
    """

    def __init__(self, concurrent: int, waiting: int, retry_after_s: float = 2.0) -> None:
        self._limiter = CapacityLimiter(concurrent)
        self._capacity = concurrent + waiting
        self._in_progress = 0
        """Requests that run or wait."""
        self._retry_after_s = retry_after_s

    async def run(self, work: Callable[[], T]) -> T:
        # The limiter would count this request only after a task switch, so that others could start before.
        if self._in_progress >= self._capacity:
            raise Unavailable(f"{self._in_progress} slow requests are running or waiting", self._retry_after_s)
        self._in_progress += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._in_progress -= 1
