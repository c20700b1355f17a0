"""The API behind a real socket, for tests of streams."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gpusquad.server.app import PREFIX
from gpusquad.server.http import HttpServer
from tests.server.rig import Rig

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Message:
    """One event; a comment has neither name nor data."""

    event: str = ""
    data: Any = None
    id: str = ""


class Stream:
    """One open stream."""

    def __init__(self, port: int, path: str, token: str, last_id: str = "") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        headers = {"Authorization": f"Bearer {token}"} | ({"Last-Event-ID": last_id} if last_id else {})
        self._connection.request("GET", f"{PREFIX}/{path}", headers=headers)
        self.response = self._connection.getresponse()

    def __iter__(self) -> Iterator[Message]:
        fields: dict[str, str] = {}
        for raw in self.response:
            line = raw.decode().rstrip("\n")
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
                continue
            data = json.loads(fields["data"]) if "data" in fields else None
            yield Message(fields.get("event", ""), data, fields.get("id", ""))
            fields = {}

    def take(self, count: int, event: str) -> list[Message]:
        """Return the next `count` messages of this kind."""
        found: list[Message] = []
        for message in self:
            if message.event == event:
                found.append(message)
            if len(found) == count:
                break
        return found

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@dataclass
class Live:
    rig: Rig
    server: HttpServer
    port: int
    thread: threading.Thread

    def stream(self, path: str, user: str = "ann", *, token: str = "", last_id: str = "") -> Stream:
        return Stream(self.port, path, token or self.rig.tokens[user], last_id)

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive()


@contextmanager
def live(rig: Rig) -> Iterator[Live]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(rig.app, rig.services, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    running = Live(rig, server, listening.getsockname()[1], thread)
    try:
        yield running
    finally:
        running.stop()
        listening.close()
