"""Work that takes long: a few at a time, a few more in line, the rest are told to come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

from gpusquad.server.errors import Unavailable

T = TypeVar("T")


class SlowRequestPool:
    """In threads of its own, so that quick requests never wait behind slow ones."""

    def __init__(self, at_once: int, waiting: int, wait_s: float = 2.0) -> None:
        self._limiter = CapacityLimiter(at_once)
        self._most = at_once + waiting
        self._inside = 0
        self._wait_s = wait_s

    async def run(self, work: Callable[[], T]) -> T:
        # Counted here and not asked of the limiter: between its answer and our place in line others could slip in.
        if self._inside >= self._most:
            raise Unavailable(f"{self._inside} such answers are being worked out", self._wait_s)
        self._inside += 1
        try:
            return await to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._inside -= 1
