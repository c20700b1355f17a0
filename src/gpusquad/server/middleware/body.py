"""Reads a request's body before it is handled, with limits on its size and time."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpusquad.server.api_errors import error_answer
from gpusquad.server.errors import TooLarge


class BodyLimit:
    def __init__(self, app: ASGIApp, most_bytes: int, timeout_s: float) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = Headers(scope=scope)
        if "content-length" not in headers and "transfer-encoding" not in headers:
            return await self._app(scope, receive, send)
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await self._read(headers, receive)
        except TimeoutError:
            cure = f"send it within {self._timeout_s:g} seconds"
            answer = error_answer(408, "too_slow", "the body took too long", field="body", cure=cure)
            answer.headers["Connection"] = "close"
            return await answer(scope, receive, send)
        except ClientDisconnect:
            return
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, headers: Headers, receive: Receive) -> bytes:
        announced = headers.get("content-length", "")
        if announced.isdigit() and int(announced[:20]) > self._most_bytes:
            raise self._too_large()
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            part = message.get("body", b"")
            size += len(part)
            if size > self._most_bytes:
                raise self._too_large()
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"the body has more than {self._most_bytes} bytes", field="body", cure="send less, or use several requests"
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    """The whole body as one message, then the following messages (the client's disconnect)."""
    is_announced = False

    async def again() -> Message:
        nonlocal is_announced
        if is_announced:
            return await receive()
        is_announced = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
