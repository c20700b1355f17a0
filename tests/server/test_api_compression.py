"""Compression of long answers."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
from collections.abc import Iterator

import pytest

from gpusquad.client import Client
from gpusquad.server.app import PREFIX
from gpusquad.server.middleware.compression import MIN_BYTES, Compression, accepts_gzip
from tests.server.live import Live, live
from tests.server.rig import JOB_FILE, Rig

LONG = f"{PREFIX}/jobs?limit=200"


@pytest.fixture
def running(rig: Rig) -> Iterator[Live]:
    rig.post("jobs", json={"file": JOB_FILE | {"sweep": {"n": list(range(200))}}})
    with live(rig) as running:
        yield running


def fetch(running: Live, path: str, accept: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    headers = {"Authorization": f"Bearer {running.rig.tokens['ann']}", "Accept-Encoding": accept}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = b"" if answer.headers["Content-Type"].startswith("text/event-stream") else answer.read()
    connection.close()
    return answer, body


def test_long_answer_is_compressed_with_the_same_content(running: Live) -> None:
    plain, plain_data = fetch(running, LONG, "identity")
    compressed, data = fetch(running, LONG, "deflate, gzip, br")
    assert "Content-Encoding" not in plain.headers
    assert compressed.headers["Content-Encoding"] == "gzip"
    assert int(compressed.headers["Content-Length"]) == len(data) < len(plain_data) / 5
    assert json.loads(gzip.decompress(data)) == json.loads(plain_data)
    assert plain.headers["Vary"] == compressed.headers["Vary"] == "Accept-Encoding"
    assert compressed.headers["Cache-Control"] == "no-store"


def test_short_answers_and_errors_are_not_compressed(running: Live) -> None:
    for path in (f"{PREFIX}/me", f"{PREFIX}/jobs/nobody"):
        answer, data = fetch(running, path, "gzip")
        assert "Content-Encoding" not in answer.headers
        assert json.loads(data)


def test_streams_are_not_compressed(running: Live) -> None:
    answer, _ = fetch(running, f"{PREFIX}/events", "gzip")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert "Content-Encoding" not in answer.headers


def test_client_reads_compressed_answers(running: Live) -> None:
    with Client(f"http://127.0.0.1:{running.port}", running.rig.tokens["ann"]) as client:
        assert len(client.jobs.find(limit=None)["items"]) == 200


@pytest.mark.parametrize(
    ("accept", "expected"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("", False), ("identity", False), ("gzip;q=0", False),
     ("gzip; q=0.0, br", False), ("xgzip", False)],
)  # fmt: skip
def test_accepts_gzip_parses_the_header(accept: str, expected: bool) -> None:
    assert accepts_gzip(accept) is expected


def test_chunked_body_is_not_compressed() -> None:
    body = b"x" * MIN_BYTES
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % (2 * len(body)))]
    sent = [
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": body, "more_body": True},
        {"type": "http.response.body", "body": body},
    ]
    received: list[dict] = []

    async def app(scope, receive, send) -> None:
        for message in sent:
            await send(message)

    async def receive() -> dict:
        return {}

    async def send(message) -> None:
        received.append(dict(message))

    scope = {"type": "http", "method": "GET", "path": "/api/x", "headers": [(b"accept-encoding", b"gzip")]}
    asyncio.run(Compression(app, "/api")(scope, receive, send))
    assert received[1:] == sent[1:]
    assert b"content-encoding" not in dict(received[0]["headers"])
