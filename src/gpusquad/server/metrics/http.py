"""Counts requests, around the whole application."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from gpusquad.server.metrics.meters import Meters

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class CountRequests:
    """ASGI middleware: ``app.add_middleware(CountRequests, meters=meters)``."""

    def __init__(self, app: App, meters: Meters) -> None:
        self._app = app
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status, streams = 500, False

        async def watched(message: Message) -> None:
            nonlocal status, streams
            if message["type"] == "http.response.start":
                status = message["status"]
                streams = _is_stream(message.get("headers", ()))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            # The router's chosen route. None: nothing matched, and unknown paths must not become labels.
            route = getattr(scope.get("route"), "path", "")
            self._meters.request(scope["method"], route, status, None if streams else time.perf_counter() - begun)


def _is_stream(headers: Any) -> bool:
    return any(name.lower() == b"content-type" and value.startswith(b"text/event-stream") for name, value in headers)
