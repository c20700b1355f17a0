"""Compresses long JSON answers for clients that accept it: a page of 1000 jobs shrinks to a tenth.

Only complete answers. Streams pass unchanged, from their first header, without delay.
"""

from __future__ import annotations

import gzip

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 16 * 1024
"""Below this size compression costs more time than it saves."""
LEVEL = 1
"""Most of the gain in a fraction of the time, because the event loop waits meanwhile."""


class Compression:
    """For paths below ``prefix``. Files of the dashboard are compressed once when they are read."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] != "HEAD" and scope["path"].startswith(self._prefix):
            send = _Packer(send, accepts_gzip(Headers(scope=scope).get("accept-encoding", "")))
        await self._app(scope, receive, send)


class _Packer:
    """Sends one answer. A long one waits with its headers for its body, which changes them."""

    def __init__(self, send: Send, is_wanted: bool) -> None:
        self._send = send
        self._is_wanted = is_wanted
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_worth_it(Headers(raw=message["headers"])):
            MutableHeaders(scope=message).add_vary_header("Accept-Encoding")
            if self._is_wanted:
                self._start = message
                return
        elif self._start is not None:
            start, self._start = self._start, None
            if message["type"] == "http.response.body" and not message.get("more_body"):
                message = _packed(start, message)
            await self._send(start)
        await self._send(message)


def accepts_gzip(accept: str) -> bool:
    """``gzip``, unless with a weight of 0."""
    for part in accept.lower().split(","):
        name, _, weight = (word.strip() for word in part.partition(";"))
        if name in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _is_worth_it(headers: Headers) -> bool:
    length = headers.get("content-length", "")  # a stream has none
    is_json = headers.get("content-type", "").startswith("application/json")
    return is_json and "content-encoding" not in headers and length.isdigit() and int(length) >= MIN_BYTES


def _packed(start: Message, message: Message) -> Message:
    data = gzip.compress(message["body"], LEVEL, mtime=0)
    headers = MutableHeaders(scope=start)
    headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(data))
    return {**message, "body": data}
