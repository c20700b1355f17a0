"""Server-sent events."""

from itertools import pairwise
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.client import ApiError
from gpusquad.client.sse import MAX_FAILURES, SseMessage, _lines, follow, messages
from tests.fake_service import FakeAnswer, error, sse

STREAM = (
    b': still here\n\nid: 7\nevent: job\ndata: {"a": 1}\n\ndata: one\ndata:two\r\n\r\nevent: empty\n\n'
    b"id: 8\nignored: x\ndata: \xe2\x82\xac\n\ndata: never finished"
)
READ = [
    None,
    SseMessage("job", '{"a": 1}', "7"),
    SseMessage("message", "one\ntwo", "7"),
    SseMessage("message", "€", "8"),
]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_do_not_depend_on_how_the_bytes_come(cuts):
    edges = sorted({0, *cuts, len(STREAM)})
    blocks = [STREAM[a:b] for a, b in pairwise(edges)]
    assert list(messages(_lines(blocks))) == READ


@given(st.binary(max_size=200))
def test_garbage_is_no_reason_to_fail(data):
    list(messages(_lines([data])))


def take(stream, count):
    return [next(stream) for _ in range(count)]


def test_a_broken_stream_goes_on_from_the_last_event(client, service):
    service.set_answers(
        "GET", "/events",
        FakeAnswer(parts=[sse("job", {"n": 1}, "5")]),
        FakeAnswer(drop=True),
        error(503, "unavailable", "starting"),
        FakeAnswer(parts=[sse("job", {"n": 2}, "6")]),
    )  # fmt: skip
    heard = [m.data for m in take(follow(client.http, ("events",)), 6) if m is not None]
    assert heard == ['{"n": 1}', '{"n": 2}']
    ids = [request.headers.get("last-event-id") for request in service.requests_to("GET", "/events")]
    assert ids == [None, "5", "5", "5"]


def test_what_cannot_pass_is_told_at_once(client, service):
    service.fail("GET", "/events", 403, "forbidden", "not for you")
    with pytest.raises(ApiError, match="not for you"):
        next(follow(client.http, ("events",)))


def test_patience_ends(client, service, pauses):
    service.set_answers("GET", "/events", FakeAnswer(drop=True))
    with pytest.raises(ApiError):
        list(follow(client.http, ("events",)))
    assert len(service.requests) == MAX_FAILURES + 1
    assert len(pauses) == MAX_FAILURES
    assert max(pauses) <= 2.0


def test_silence_is_told_and_the_stream_taken_up_again(client, service):
    gone_quiet = Event()

    def parts():
        yield sse("job", {"n": 1}, "5")
        gone_quiet.wait(10)

    class Slowly:
        def __iter__(self):
            return parts()

    service.set_answers("GET", "/events", FakeAnswer(parts=Slowly()), FakeAnswer(parts=[sse("job", {"n": 2}, "6")]))
    heard = take(client.events.pulse(patience_s=lambda: 0.05), 4)
    gone_quiet.set()
    assert heard == [None, {"n": 1}, None, {"n": 2}]


def test_only_events_of_jobs(client, service):
    service.set_answers("GET", "/events", FakeAnswer(parts=[sse("other", {}), sse("job", {"job": "a"}, "1")]))
    assert next(client.events.follow(after=3)) == {"job": "a"}
    assert service.requests[-1].query == {"after": ["3"]}
