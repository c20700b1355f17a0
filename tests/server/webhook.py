"""A local webhook with scripted answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Received requests and the answers: one status per request, the last one for all later requests."""

    def __init__(self, statuses: Sequence[int], headers: dict[str, str]) -> None:
        self.statuses = list(statuses)
        self.headers = headers
        self.received: list[dict[str, Any]] = []
        self.answered: list[int] = []
        """Status of each request."""
        self.paths: list[str] = []
        self.headers_of: list[dict[str, str]] = []
        """Headers of each request."""
        self.arrived = threading.Semaphore(0)
        self.port = 0

    def url(self, path: str = "/", scheme: str = "json") -> str:
        return f"{scheme}://127.0.0.1:{self.port}{path}"


@contextmanager
def webhook(*statuses: int, headers: dict[str, str] | None = None) -> Iterator[Webhook]:
    hook = Webhook(statuses or [200], headers or {})

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hook.received.append(json.loads(body))
            hook.paths.append(self.path)
            hook.headers_of.append(dict(self.headers))
            status = hook.statuses.pop(0) if len(hook.statuses) > 1 else hook.statuses[0]
            hook.answered.append(status)
            self.send_response(status)
            for name, value in hook.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()
            hook.arrived.release()

        def log_message(self, *_args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
