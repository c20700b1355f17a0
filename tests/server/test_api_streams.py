"""Streams over a real socket: what happens to jobs, and what they print."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.server.broadcast import Broadcast
from gpusquad.server.limits import ApiLimits
from gpusquad.server.log_follow import read_part
from gpusquad.server.log_position import LogPosition
from tests.server.live import Live, live
from tests.server.rig import Chunk, FakeLogReader, Rig


@pytest.fixture
def running(rig: Rig) -> Iterator[Live]:
    with live(rig) as one:
        yield one


@pytest.fixture
def hasty(make_rig: Callable[..., Rig]) -> Iterator[Live]:
    """With a heart that beats fast."""
    with live(make_rig(limits=ApiLimits(heartbeat_s=0.05, streams=3, streams_of_one=2))) as one:
        yield one


# -- events --------------------------------------------------------------------------------------------------------


def test_events_as_they_happen(running: Live) -> None:
    stream = running.stream("events")
    assert stream.response.headers["Content-Type"].startswith("text/event-stream")
    next(iter(stream))  # let in: whatever comes now is told
    job = running.rig.submit(name="first")["id"]
    running.rig.scheduler.move(job, "running")
    told = [message.data for message in stream.take(2, "job")]
    assert [(one["job"], one["name"], one["state"]) for one in told] == [
        (job, "first", "pending"),
        (job, "first", "running"),
    ]
    assert told[0].keys() == {"id", "job", "name", "at_s", "kind", "state", "attempt", "cause"}
    stream.close()


@pytest.mark.parametrize("how", ["header", "query"])
def test_events_resume_without_a_gap(running: Live, how: str) -> None:
    ids = [running.rig.submit()["id"] for _ in range(5)]
    stream = running.stream("events?after=0")
    first = stream.take(2, "job")
    stream.close()
    ids += [running.rig.submit()["id"] for _ in range(3)]
    if how == "header":
        stream = running.stream("events?after=0", last_id=first[-1].id)
    else:
        stream = running.stream(f"events?after={first[-1].id}")
    rest = stream.take(6, "job")
    assert [message.data["job"] for message in first + rest] == ids
    stream.close()


def test_more_events_than_a_page(running: Live) -> None:
    running.rig.post("jobs", json={"file": {"command": ["true"], "gpus": 1, "sweep": {"n": list(range(1200))}}})
    stream = running.stream("events?after=0")
    numbers = [message.data["id"] for message in stream.take(1200, "job")]
    assert numbers == sorted(set(numbers))
    stream.close()


def test_an_id_from_before_the_store_was_made_anew(running: Live) -> None:
    stream = running.stream("events", last_id="999999")
    next(iter(stream))
    job = running.rig.submit()["id"]
    assert stream.take(1, "job")[0].data["job"] == job
    stream.close()


def test_events_of_other_tenants_are_not_told(running: Live) -> None:
    stream = running.stream("events?after=0", "bob")
    running.rig.submit("ann")
    mine = running.rig.submit("bob")["id"]
    assert stream.take(1, "job")[0].data["job"] == mine
    stream.close()


@pytest.mark.parametrize("last_id", ["x", "-1", "1;2", "9" * 30])
def test_bad_ids_are_refused(running: Live, last_id: str) -> None:
    assert running.stream("events", last_id=last_id).response.status == 422


def test_heart_beats(hasty: Live) -> None:
    stream = iter(hasty.stream("events"))
    assert [next(stream).event for _ in range(3)] == ["", "", ""]


def test_a_revoked_token_ends_its_streams(hasty: Live) -> None:
    made = hasty.rig.post("tokens", json={}).json()
    stream = hasty.stream("events", token=made["token"])
    next(iter(stream))
    hasty.rig.call("DELETE", f"tokens/{made['id']}")
    assert all(message.event == "" for message in stream)


def test_streams_are_few_and_given_back(hasty: Live) -> None:
    first, second = hasty.stream("events"), hasty.stream("events")
    refused = hasty.stream("events")
    assert refused.response.status == 503
    assert refused.response.headers["Retry-After"]
    third = hasty.stream("events", "bob")
    assert third.response.status == 200
    assert hasty.stream("events", "amy").response.status == 503
    first.close()
    second.close()
    end_s = time.monotonic() + 20
    while hasty.stream("events").response.status != 200:
        assert time.monotonic() < end_s
    third.close()


def test_streams_end_when_the_service_stops(running: Live) -> None:
    stream = running.stream("events")
    next(iter(stream))
    running.server.should_exit = True
    assert all(message.event == "" for message in stream)
    running.thread.join(20)
    assert not running.thread.is_alive()


def test_the_store_may_be_away_for_a_while(hasty: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpusquad.server import event_follow, keepalive
    from gpusquad.store.errors import StoreUnavailable

    monkeypatch.setattr(keepalive, "_STORE_AWAY_S", 0.01)
    stream = hasty.stream("events")
    next(iter(stream))
    real, failed = event_follow.events.after, threading.Event()

    def broken(*_: object) -> list:
        failed.set()
        raise StoreUnavailable("away")

    monkeypatch.setattr(event_follow.events, "after", broken)
    job = hasty.rig.submit()["id"]
    assert failed.wait(20)
    monkeypatch.setattr(event_follow.events, "after", real)
    assert stream.take(1, "job")[0].data["job"] == job
    stream.close()


# -- logs ----------------------------------------------------------------------------------------------------------


def text_of(messages, task: int | None = None) -> str:
    return "".join(one.data["text"] for one in messages if one.event == "log" and task in (None, one.data["task"]))


@pytest.mark.parametrize("is_watched", [True, False])
def test_logs_as_they_are_written(running: Live, is_watched: bool) -> None:
    rig = running.rig
    rig.logs.is_watched = is_watched
    job = rig.submit()["id"]
    stream = running.stream(f"jobs/{job}/logs/stream")
    rig.logs.write(job, 0, 0, b"one\n")
    rig.scheduler.move(job, "running")
    assert stream.take(1, "log")[0].data == {
        "task": 0, "attempt": 0, "offset": 0, "next": 4, "text": "one\n",
    }  # fmt: skip
    rig.logs.write(job, 0, 0, b"two\n")
    assert stream.take(1, "log")[0].data["text"] == "two\n"
    rig.logs.write(job, 0, 0, b"three")
    rig.scheduler.move(job, "failed")
    rest = list(stream)
    assert text_of(rest) == "three"
    assert (rest[-1].event, rest[-1].data) == ("end", {"state": "failed"})


def test_logs_of_a_finished_job_end_at_once(running: Live) -> None:
    rig = running.rig
    job = rig.submit()["id"]
    rig.logs.write(job, 0, 0, b"all of it")
    rig.scheduler.move(job, "succeeded")
    told = list(running.stream(f"jobs/{job}/logs/stream"))
    assert text_of(told) == "all of it"
    assert told[-1].data == {"state": "succeeded"}


def test_logs_go_on_over_attempts(running: Live) -> None:
    rig = running.rig
    job = rig.submit()["id"]
    rig.logs.write(job, 0, 0, b"first attempt\n")
    rig.scheduler.move(job, "pending", attempt=1)
    stream = running.stream(f"jobs/{job}/logs/stream")
    assert stream.take(1, "log")[0].data["attempt"] == 0
    rig.logs.write(job, 1, 0, b"second attempt\n")
    rig.scheduler.move(job, "succeeded")
    rest = list(stream)
    assert [(one.data["attempt"], one.data["text"]) for one in rest if one.event == "log"] == [(1, "second attempt\n")]


def test_characters_are_never_cut(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(log_chunk_bytes=4096))
    text = "가나다🦑é" * 2000
    data = text.encode() + b"\xff\xf0\x9f"
    with live(rig) as running:
        job = rig.submit()["id"]
        rig.logs.write(job, 0, 0, data[:7])
        stream = running.stream(f"jobs/{job}/logs/stream")
        rig.scheduler.move(job, "running")
        seen = stream.take(1, "log")
        rig.logs.write(job, 0, 0, data[7:])
        rig.scheduler.move(job, "succeeded")
        seen += list(stream)
    logs = [one for one in seen if one.event == "log"]
    assert text_of(seen) == text + "\ufffd\ufffd"
    assert "\ufffd" not in text_of(logs[:-1])
    assert [one.data["next"] for one in logs[:-1]] == [one.data["offset"] for one in logs[1:]]
    assert logs[-1].data["next"] == len(data)


def test_logs_resume_for_every_task(running: Live) -> None:
    rig = running.rig
    job = rig.submit(count=3)["id"]
    for task in range(3):
        rig.logs.write(job, 0, task, f"task {task} begins\n".encode())
    rig.scheduler.move(job, "running")
    stream = running.stream(f"jobs/{job}/logs/stream")
    seen = stream.take(3, "log")
    assert [bool(one.id) for one in seen] == [False, False, True]
    stream.close()
    for task in range(3):
        rig.logs.write(job, 0, task, f"task {task} ends\n".encode())
    rig.scheduler.move(job, "succeeded")
    seen += list(running.stream(f"jobs/{job}/logs/stream", last_id=seen[-1].id))
    for task in range(3):
        assert text_of(seen, task) == f"task {task} begins\ntask {task} ends\n"


def test_logs_of_one_task_and_of_the_last_lines(running: Live) -> None:
    rig = running.rig
    job = rig.submit(count=2)["id"]
    for task in range(2):
        rig.logs.write(job, 0, task, "".join(f"{task}.{line}\n" for line in range(5)).encode())
    rig.scheduler.move(job, "succeeded")
    assert text_of(running.stream(f"jobs/{job}/logs/stream?task=1&tail=2")) == "1.3\n1.4\n"
    assert text_of(running.stream(f"jobs/{job}/logs/stream?task=1&tail=0")) == ""
    assert text_of(running.stream(f"jobs/{job}/logs/stream?task=7")) == ""
    for query in ("task=x", "task=-1", "tail=-1"):
        assert running.stream(f"jobs/{job}/logs/stream?{query}").response.status == 422


def test_too_many_tasks_to_follow(running: Live) -> None:
    job = running.rig.submit(gpus=0, cpu=1, count=300)["id"]
    assert running.stream(f"jobs/{job}/logs/stream").response.status == 422
    running.rig.scheduler.move(job, "succeeded")
    assert running.stream(f"jobs/{job}/logs/stream?task=0").response.status == 200


def test_parts_of_a_log(rig: Rig) -> None:
    job = rig.submit()["id"]
    assert rig.get(f"jobs/{job}/logs").json() == {
        "task": 0, "attempt": 0, "offset": 0, "next": 0, "text": "", "end": False,
    }  # fmt: skip
    rig.logs.write(job, 0, 0, "aé🦑z\n".encode())
    told, offset = "", 0
    while True:
        part = rig.get(f"jobs/{job}/logs?offset={offset}&limit=1").json()
        if not part["text"]:
            break
        told, offset = told + part["text"], part["next"]
    assert told == "aé🦑z\n"
    assert part["end"] is False
    rig.scheduler.move(job, "succeeded")
    assert rig.get(f"jobs/{job}/logs?tail=1").json()["end"] is True
    assert rig.get(f"jobs/{job}/logs?tail=1&offset=0").status_code == 422
    assert rig.get(f"jobs/{job}/logs?attempt=1").status_code == 404
    assert rig.get(f"jobs/{job}/logs?offset=999999").json()["text"] == ""


def test_a_job_that_waits_again_shows_its_last_attempt(rig: Rig) -> None:
    job = rig.submit()["id"]
    rig.logs.write(job, 0, 0, b"before\n")
    rig.scheduler.move(job, "pending", attempt=1)
    part = rig.get(f"jobs/{job}/logs").json()
    assert (part["attempt"], part["text"], part["end"]) == (0, "before\n", True)


def test_a_reader_that_takes_nothing_is_cut(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(send_timeout_s=0.1, streams_of_one=1))
    with live(rig) as running:
        job = rig.submit()["id"]
        rig.logs.write(job, 0, 0, b"x" * 40_000_000)  # more than the buffers of both ends hold
        rig.scheduler.move(job, "running")
        stuck = running.stream(f"jobs/{job}/logs/stream")
        end_s = time.monotonic() + 20
        while (stream := running.stream(f"jobs/{job}/logs/stream?tail=0")).response.status != 200:
            assert time.monotonic() < end_s
            stream.close()
        stuck.close()
        stream.close()


class Pieces(FakeLogReader):
    """Files that end within a character, as the engine's do; bytes between two of them may be missing."""

    def __init__(self, *pieces: tuple[int, bytes]) -> None:
        self._pieces = pieces

    def size(self, task: int) -> tuple[int, int]:
        last, data = self._pieces[-1]
        return self._pieces[0][0], last + len(data)

    def read(self, task: int, offset: int, limit: int) -> Chunk:
        for start, data in self._pieces:
            if offset < start + len(data):
                begin = max(offset, start)
                part = data[begin - start :][:limit]
                return Chunk(begin, part, begin + len(part))
        return Chunk(offset, b"", offset)


@pytest.mark.parametrize("cut", range(1, 9))
def test_characters_over_two_files(cut: int) -> None:
    data = "é🦑🦑".encode()
    reader = Pieces((0, data[:cut]), (cut, data[cut:]))
    assert _all_of(reader, is_over=False) == "é🦑🦑"
    assert _all_of(reader, is_over=True) == "é🦑🦑"


def test_characters_that_never_become_whole() -> None:
    broken = "🦑".encode()[:2]
    assert _all_of(Pieces((0, b"a" + broken), (100, b"b")), is_over=False) == "a\ufffdb"
    assert _all_of(Pieces((0, b"a" + broken)), is_over=False) == "a"
    assert _all_of(Pieces((0, b"a" + broken)), is_over=True) == "a\ufffd"


def _all_of(reader: FakeLogReader, is_over: bool) -> str:
    text, offset = "", 0
    while True:
        part = read_part(reader, 0, offset, 4, is_over)
        if part["next"] == offset:
            return text
        text, offset = text + part["text"], part["next"]


# -- their parts ---------------------------------------------------------------------------------------------------


def test_places_read_back() -> None:
    for place in (
        LogPosition(0),
        LogPosition(3, {0: 5, 12: 0}),
        LogPosition(1, {task: 2**40 + task for task in range(256)}),
    ):
        assert LogPosition.parse(str(place)) == place
    for text in ("", "x", "1", "1;2", "1;2:3,", "-1;", "1;1:1 ", "1;" + ",".join(["1:1"] * 257)):
        with pytest.raises(Invalid):
            LogPosition.parse(text)


def test_bells_hear_what_rang_before(tmp_path: Path) -> None:
    async def listen() -> None:
        broadcast = Broadcast()
        broadcast.wake()  # nobody listens: nothing happens
        with broadcast.listening() as bell, broadcast.listening() as other:
            thread = threading.Thread(target=lambda: [broadcast.wake() for _ in range(1000)])
            thread.start()
            assert await bell.wait(20)
            await asyncio.to_thread(thread.join)
            assert await other.wait(20)
            await bell.wait(0.01)
            assert not await bell.wait(0.01)
            broadcast.close()
            assert await bell.wait(20)
            assert bell.is_closed

    asyncio.run(listen())
