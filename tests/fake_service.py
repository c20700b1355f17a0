"""A service with the documented API that answers from canned data and records the requests it gets.

``python -m tests.fake_service`` runs one on its own, to see what the command line prints from its answers.
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
class RecordedRequest:
    """One request that the service received."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    connection: int


@dataclass
class FakeAnswer:
    """One answer. ``parts``: chunks of a stream that ends with the last one. ``drop``: close the connection instead."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    parts: Sequence[bytes] | None = None
    raw: bytes | None = None
    drop: bool = False
    before: Callable[[], None] | None = None


class FakeService:
    """Answers by (method, path). A list is answered one item per request; its last item is repeated."""

    def __init__(self) -> None:
        self.now_s = time.time()
        self.requests: list[RecordedRequest] = []
        self.answers: dict[tuple[str, str], list[FakeAnswer]] = {}
        self._connections = 0
        self._lock = threading.Lock()
        for (method, path), body in canned(self.now_s).items():
            self.set_answers(method, path, body)
        self.set_answers("HEAD", "/index.html", None)  # the dashboard

    def set_answers(self, method: str, path: str, *bodies: Any) -> None:
        """Set the answers from now on: plain data or ``FakeAnswer``."""
        self.answers[method, path] = [body if isinstance(body, FakeAnswer) else FakeAnswer(body) for body in bodies]

    def fail(
        self, method: str, path: str, status: int, code: str, message: str, field: str = "", cure: str = ""
    ) -> None:
        self.set_answers(method, path, error(status, code, message, field, cure))

    def requests_to(self, method: str, path: str) -> list[RecordedRequest]:
        """Requests with this method and path (without the API's prefix)."""
        return [one for one in self.requests if (one.method, one.path.removeprefix(PREFIX)) == (method, path)]

    def answer(self, request: RecordedRequest) -> FakeAnswer:
        with self._lock:
            self.requests.append(request)
            if request.path.startswith("/api/") and request.headers.get("authorization") != f"Bearer {TOKEN}":
                return error(401, "unauthenticated", "the token is invalid", "Authorization", "log in")
            answers = self.answers.get((request.method, request.path.removeprefix(PREFIX)))
            if answers is None:
                return error(404, "not_found", f"there is no {request.path.removeprefix(PREFIX)}", "job")
            return answers.pop(0) if len(answers) > 1 else answers[0]

    def new_connection(self) -> int:
        with self._lock:
            self._connections += 1
            return self._connections

    @property
    def connections(self) -> int:
        return self._connections


def error(status: int, code: str, message: str, field: str = "", cure: str = "", **headers: str) -> FakeAnswer:
    body = {"code": code, "message": message, "field": field, "cure": cure}
    return FakeAnswer({"error": body}, status, {name.replace("_", "-"): value for name, value in headers.items()})


def sse(event: str, data: Any, event_id: str = "") -> bytes:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {event}\ndata: {json.dumps(data)}\n\n".encode()


@contextmanager
def running(service: FakeService, port: int = 0) -> Iterator[str]:
    """Run the service; yield its address."""
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
        """Ignore errors: a client may disconnect in the middle of a stream."""


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
            request = RecordedRequest(self.command, path, parse_qs(parts.query), headers, body, self.connection_number)
            self._send(service.answer(request))

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def _send(self, answer: FakeAnswer) -> None:
            if answer.before is not None:
                answer.before()
            if answer.drop:
                self.close_connection = True
                self.connection.close()
            elif answer.parts is not None:
                self._stream(answer.parts)
            else:
                self._whole(answer)

        def _whole(self, answer: FakeAnswer) -> None:
            body = b"" if answer.status == 204 else json.dumps(answer.body).encode()
            data = answer.raw if answer.raw is not None else body
            (self.send_response_only if "Date" in answer.headers else self.send_response)(answer.status)
            for name, value in {"Content-Type": "application/json", **answer.headers}.items():
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
