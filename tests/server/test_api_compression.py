"""Long answers are packed for those who can unpack them, and nothing else is."""

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
    with live(rig) as one:
        yield one


def ask(running: Live, path: str, accept: str, method: str = "GET") -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    headers = {"Authorization": f"Bearer {running.rig.tokens['ann']}", "Accept-Encoding": accept}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = b"" if answer.headers["Content-Type"].startswith("text/event-stream") else answer.read()
    connection.close()
    return answer, body


def test_a_long_answer_is_packed_and_says_the_same(running: Live) -> None:
    plain, told = ask(running, LONG, "identity")
    packed, data = ask(running, LONG, "deflate, gzip, br")
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) == len(data) < len(told) / 5
    assert json.loads(gzip.decompress(data)) == json.loads(told)
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert packed.headers["Cache-Control"] == "no-store"


def test_short_answers_and_errors_are_not(running: Live) -> None:
    for path in (f"{PREFIX}/me", f"{PREFIX}/jobs/nobody"):
        answer, data = ask(running, path, "gzip")
        assert "Content-Encoding" not in answer.headers
        assert json.loads(data)


def test_streams_are_left_alone(running: Live) -> None:
    answer, _ = ask(running, f"{PREFIX}/events", "gzip")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert "Content-Encoding" not in answer.headers


def test_the_client_reads_long_answers(running: Live) -> None:
    with Client(f"http://127.0.0.1:{running.port}", running.rig.tokens["ann"]) as client:
        assert len(client.jobs.find(limit=None)["items"]) == 200


@pytest.mark.parametrize(
    ("accept", "does"),
    [("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("", False), ("identity", False), ("gzip;q=0", False),
     ("gzip; q=0.0, br", False), ("xgzip", False)],
)  # fmt: skip
def test_who_can_unpack(accept: str, does: bool) -> None:
    assert accepts_gzip(accept) is does


def test_a_body_in_parts_goes_out_as_it_is() -> None:
    body = b"x" * MIN_BYTES
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % (2 * len(body)))]
    sent = [
        {"type": "http.response.start", "status": 200, "headers": headers},
        {"type": "http.response.body", "body": body, "more_body": True},
        {"type": "http.response.body", "body": body},
    ]
    got: list[dict] = []

    async def app(scope, receive, send) -> None:
        for message in sent:
            await send(message)

    async def receive() -> dict:
        return {}

    async def send(message) -> None:
        got.append(dict(message))

    scope = {"type": "http", "method": "GET", "path": "/api/x", "headers": [(b"accept-encoding", b"gzip")]}
    asyncio.run(Compression(app, "/api")(scope, receive, send))
    assert got[1:] == sent[1:]
    assert b"content-encoding" not in dict(got[0]["headers"])
