"""Server-sent events. A reader that accepts nothing is cut, and can resume by id."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, suppress
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gpusquad.server.errors import Unavailable

_log = logging.getLogger("gpusquad.server")
HEARTBEAT = b": still here\n\n"
"""A comment that keeps proxies from closing the connection, and shows that both ends are alive."""


def event(kind: str, data: Any, event_id: str = "") -> bytes:
    """One event. JSON has no line breaks, so the data is one line."""
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {kind}\ndata: ".encode() + to_json(data, inf_nan_mode="null") + b"\n\n"


class Streams:
    """Number of open streams, in total and by caller."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, user: str) -> Iterator[None]:
        if self._open.total() >= self._most or self._open[user] >= self._most_of_one:
            raise Unavailable("too many streams are open", wait_s=5.0)
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            if not self._open[user]:
                del self._open[user]


class EventStream(Response):
    """Sends the iterator's output until it ends, the reader leaves, or the reader accepts nothing for too long."""

    media_type = "text/event-stream"

    def __init__(self, parts: AsyncIterator[bytes], send_timeout_s: float, place: AbstractContextManager[None]) -> None:
        super().__init__(None, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._parts = parts
        self._send_timeout_s = send_timeout_s
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await self._stream(receive, send)

    async def _stream(self, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        sending = asyncio.ensure_future(self._send_all(send))
        gone = asyncio.ensure_future(_disconnect(receive))
        try:
            await asyncio.wait((sending, gone), return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except TimeoutError:
            _log.info("stream cut: its reader accepted nothing for %g s", self._send_timeout_s)
        finally:
            for task in (sending, gone):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    async def _send_all(self, send: Send) -> None:
        async with aclosing(self._parts) as parts:  # pyright: ignore[reportArgumentType]
            async for part in parts:
                async with asyncio.timeout(self._send_timeout_s):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
