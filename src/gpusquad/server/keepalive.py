"""Lifecycle of a stream: waits for news, sends heartbeats, and ends when its caller loses access."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from gpusquad.server.auth import sent_token
from gpusquad.server.broadcast import Bell
from gpusquad.server.permissions import caller_of
from gpusquad.server.sse import HEARTBEAT, EventStream
from gpusquad.server.wiring import Services
from gpusquad.store.errors import StoreUnavailable

T = TypeVar("T")
TOGETHER_S = 0.05
"""Events within this time are sent together."""
_STORE_AWAY_S = 1.0


class StreamKeepalive:
    """Of one stream."""

    def __init__(
        self, bell: Bell, heartbeat_s: float, is_allowed: Callable[[], bool], threads: CapacityLimiter
    ) -> None:
        self.bell = bell
        self._heartbeat_s = heartbeat_s
        self._is_allowed = is_allowed
        self._threads = threads
        self._next_s = _now_s() + heartbeat_s
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """The caller lost access, or the service is stopping."""
        return self._is_over or self.bell.is_closed

    async def beat(self) -> bytes:
        """A heartbeat at intervals, after checking the caller's access; otherwise nothing."""
        if _now_s() < self._next_s:
            return b""
        self._next_s = _now_s() + self._heartbeat_s
        self._is_over = await self.read(self._is_allowed) is False
        return HEARTBEAT

    async def rest(self, most_s: float | None = None) -> None:
        """Wait for news, at most until the next heartbeat."""
        left_s = max(0.0, self._next_s - _now_s())
        if await self.bell.wait(left_s if most_s is None else min(left_s, most_s)) and not self.is_over:
            await asyncio.sleep(TOGETHER_S)

    async def read(self, work: Callable[[], T]) -> T | None:
        """Run in a thread for streams. None: the store did not answer, and a short wait has passed."""
        try:
            return await to_thread.run_sync(work, limiter=self._threads)
        except StoreUnavailable:
            await asyncio.sleep(_STORE_AWAY_S)
            return None


def stream(
    request: Request, services: Services, parts: Callable[[StreamKeepalive], AsyncIterator[bytes]]
) -> EventStream:
    """The answer to a stream request. A caller with too many streams is refused first."""
    caller, token = caller_of(request), sent_token(request.headers) or ""
    limits = services.limits

    async def all_parts() -> AsyncIterator[bytes]:
        with services.broadcast.listening() as bell:
            is_allowed = lambda: services.auth.is_still(caller, token)  # noqa: E731
            pulse = StreamKeepalive(bell, limits.heartbeat_s, is_allowed, services.stream_threads)
            async with aclosing(parts(pulse)) as inner:  # pyright: ignore[reportArgumentType]
                async for part in inner:
                    if part:
                        yield part

    return EventStream(all_parts(), limits.send_timeout_s, services.streams.one(caller.who.user))


def _now_s() -> float:
    return asyncio.get_running_loop().time()
