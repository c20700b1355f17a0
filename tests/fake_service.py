"""A service that answers as the API's description says, from canned data, and remembers what it was asked.

``python -m tests.fake_service`` runs one by itself, to look at what the command line makes of it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.canned.answers import canned

TOKEN = "a-token-for-tests"
PREFIX = "/api/v1"


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    connection: int


@dataclass
class Told:
    """One answer. ``parts``: a stream that sends these and closes. ``drop``: the connection breaks instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: Sequence[bytes] | None = None
    raw: bytes | None = None
    drop: bool = False
    before: Callable[[], None] | None = None


class FakeService:
    """Answers by (method, path). A list is told one after the other, its last one for ever."""

    def __init__(self) -> None:
        self.now_s = time.time()
        self.asked: list[Asked] = []
        self.answers: dict[tuple[str, str], list[Told]] = {}
        self._connections = 0
        self._lock = threading.Lock()
        for (method, path), body in canned(self.now_s).items():
            self.tell(method, path, body)
        self.tell("HEAD", "/index.html", None)  # the dashboard

    def tell(self, method: str, path: str, *bodies: Any) -> None:
        """What to answer from now on; plain data, or ``Told``."""
        self.answers[method, path] = [body if isinstance(body, Told) else Told(body) for body in bodies]

    def fail(
        self, method: str, path: str, status: int, code: str, message: str, field: str = "", cure: str = ""
    ) -> None:
        self.tell(method, path, error(status, code, message, field, cure))

    def of(self, method: str, path: str) -> list[Asked]:
        """The requests of one kind; the path is without the API's prefix."""
        return [asked for asked in self.asked if (asked.method, asked.path.removeprefix(PREFIX)) == (method, path)]

    def answer(self, asked: Asked) -> Told:
        with self._lock:
            self.asked.append(asked)
            if asked.path.startswith("/api/") and asked.headers.get("authorization") != f"Bearer {TOKEN}":
                return error(401, "unauthenticated", "the token is invalid", "Authorization", "log in")
            told = self.answers.get((asked.method, asked.path.removeprefix(PREFIX)))
            if told is None:
                return error(404, "not_found", f"there is no {asked.path.removeprefix(PREFIX)}", "job")
            return told.pop(0) if len(told) > 1 else told[0]

    def new_connection(self) -> int:
        with self._lock:
            self._connections += 1
            return self._connections

    @property
    def connections(self) -> int:
        return self._connections


def error(status: int, code: str, message: str, field: str = "", cure: str = "", **headers: str) -> Told:
    told = {"code": code, "message": message, "field": field, "cure": cure}
    return Told({"error": told}, status, {name.replace("_", "-"): value for name, value in headers.items()})


def sse(event: str, data: Any, event_id: str = "") -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def running(service: FakeService, port: int = 0) -> Iterator[str]:
    """Its address while it runs."""
    server = _Server(("127.0.0.1", port), _handler(service))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves in the middle of a stream is no error."""


def _handler(service: FakeService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            self.connection_number = service.new_connection()

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            headers = {name.lower(): value for name, value in self.headers.items()}
            path = unquote(parts.path) if "%2F" not in parts.path else parts.path
            asked = Asked(self.command, path, parse_qs(parts.query), headers, body, self.connection_number)
            self._tell(service.answer(asked))

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def _tell(self, told: Told) -> None:
            if told.before is not None:
                told.before()
            if told.drop:
                self.close_connection = True
                self.connection.close()
            elif told.parts is not None:
                self._stream(told.parts)
            else:
                self._whole(told)

        def _whole(self, told: Told) -> None:
            data = told.raw if told.raw is not None else b"" if told.status == 204 else json.dumps(told.body).encode()
            (self.send_response_only if "Date" in told.headers else self.send_response)(told.status)
            for name, value in {"Content-Type": "application/json", **told.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def _stream(self, parts: Sequence[bytes]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in parts:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


if __name__ == "__main__":
    with running(FakeService(), 8642) as url:
        print(f"export GPUSQUAD_URL={url} GPUSQUAD_TOKEN={TOKEN}")
        threading.Event().wait()
