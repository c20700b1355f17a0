"""Logs, read and followed."""

from gpusquad.client.logs import LogChunk, LogEnd
from tests.fake_service import FakeAnswer, sse

PATH = "/jobs/train/logs"


def part(text: str, offset: int, *, attempt: int = 0, task: int = 0, end: bool = False) -> dict:
    following = offset + len(text.encode())
    return {"task": task, "attempt": attempt, "offset": offset, "next": following, "text": text, "end": end}


def test_reading_goes_on_until_nothing_is_left(client, service):
    service.set_answers("GET", PATH, part("one\n", 0), part("two\n", 4), part("", 8))
    assert [chunk.text for chunk in client.logs.read_all("train", 2, tail=7)] == ["one\n", "two\n"]
    queries = [request.query for request in service.requests]
    assert [query.get("offset") for query in queries] == [None, ["4"], ["8"]]
    assert [query.get("tail") for query in queries] == [["7"], None, None]
    assert all(query["task"] == ["2"] for query in queries)


def test_an_attempt_that_begins_later_does_not_mix_in(client, service):
    """Once begun with the latest attempt, reading stays with it."""
    service.set_answers("GET", PATH, part("old", 0, attempt=1), part("", 3, attempt=1))
    list(client.logs.read_all("train"))
    assert service.requests[-1].query["attempt"] == ["1"]


def test_the_end_is_believed(client, service):
    service.set_answers("GET", PATH, part("all", 0, end=True))
    assert len(list(client.logs.read_all("train"))) == len(service.requests) == 1


def test_following_to_the_end_over_attempts(client, service):
    service.set_answers("GET", PATH + "/stream", FakeAnswer(parts=[
        sse("log", part("a\n", 0), "0;0:2"), b": still here\n\n", sse("log", part("b\n", 0, attempt=1), "1;0:2"),
        sse("end", {"state": "succeeded"}),
    ]))  # fmt: skip
    heard = list(client.logs.stream("train", tail=3))
    assert [type(one) for one in heard] == [LogChunk, LogChunk, LogEnd]
    assert service.requests[-1].query == {"task": ["all"], "tail": ["3"]}


def test_what_is_told_again_is_not_heard_twice(client, service):
    service.set_answers(
        "GET", PATH + "/stream",
        FakeAnswer(parts=[sse("log", part("héllo\n", 0))]),
        FakeAnswer(parts=[
            sse("log", part("héllo\n", 0)), sse("log", part("éllo\nwörld", 1)), sse("end", {"state": "failed"}),
        ]),
    )  # fmt: skip
    heard = list(client.logs.stream("train"))
    assert "".join(one.text for one in heard if isinstance(one, LogChunk)) == "héllo\nwörld"
    assert heard[-1] == LogEnd("failed")
