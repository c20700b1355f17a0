"""Client for many small requests to one API server with little CPU time: prepared bytes over a few open connections.

The client runs on the measured machine, so its cost reduces the measured rate. A general HTTP library needs several
times as much CPU time per request.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

END_OF_HEAD = b"\r\n\r\n"
END_OF_CHUNKS = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class ApiServer:
    """Address of the API server, and credentials."""

    url: str
    certificate: Path
    token: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.certificate))

    def post(self, path: str, content: dict[str, Any]) -> bytes:
        body = json.dumps(content, separators=(",", ":")).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.address[0]}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Failed(Exception):
    """The server refused a request."""


Request = tuple[str, bytes]
"""Name of the object, and the request bytes."""
Note = Callable[[str], object]


def send(server: ApiServer, requests: Iterable[Request], in_flight: int, note: Note) -> None:
    """Send all requests, ``in_flight`` at a time. ``note`` is called for each when it is answered."""
    uvloop.run(_send(server, iter(requests), in_flight, note))


async def _send(server: ApiServer, requests: Iterator[Request], in_flight: int, note: Note) -> None:
    loop, tls, (host, port) = asyncio.get_running_loop(), server.tls(), server.address
    lanes = [_Lane(requests, note, loop.create_future()) for _ in range(in_flight)]
    opened = [await loop.create_connection(lambda lane=lane: lane, host, port, ssl=tls) for lane in lanes]
    try:
        for lane in lanes:
            lane.next()
        await asyncio.gather(*(lane.done for lane in lanes))
    finally:
        for transport, _ in opened:
            transport.abort()


class _Lane(asyncio.Protocol):
    """One connection with one request in flight."""

    def __init__(self, requests: Iterator[Request], note: Note, done: asyncio.Future[None]) -> None:
        self.done = done
        self._requests = requests
        self._note = note
        self._about = ""
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._about = request[0]
            self._transport.write(request[1])
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        answer = self._answer + data if self._answer else data
        if not is_whole(answer):
            self._answer = answer
            return
        self._answer = b""
        if not answer.startswith(b"HTTP/1.1 20"):
            self._fail(f"{self._about}: {answer.decode(errors='replace')}")
            return
        self._note(self._about)
        self.next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(Failed(why))


def is_whole(answer: bytes) -> bool:
    """Whether this is all of an HTTP answer, by its length or by its last chunk."""
    head, found, body = answer.partition(END_OF_HEAD)
    if not found:
        return False
    _, told, rest = head.partition(b"Content-Length: ")
    if told:
        return len(body) >= int(rest.split(b"\r\n", 1)[0])
    return body.endswith(END_OF_CHUNKS)
