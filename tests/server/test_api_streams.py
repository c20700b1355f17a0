"""Streams of events and logs over a real socket."""

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
    with live(rig) as server:
        yield server


@pytest.fixture
def fast_heartbeat(make_rig: Callable[..., Rig]) -> Iterator[Live]:
    """A server with a short heartbeat interval and few streams."""
    with live(make_rig(limits=ApiLimits(heartbeat_s=0.05, streams=3, streams_of_one=2))) as server:
        yield server


# -- events --------------------------------------------------------------------------------------------------------


def test_events_are_streamed_as_they_happen(running: Live) -> None:
    stream = running.stream("events")
    assert stream.response.headers["Content-Type"].startswith("text/event-stream")
    next(iter(stream))  # subscribed: later events are streamed
    job = running.rig.submit(name="first")["id"]
    running.rig.scheduler.move(job, "running")
    streamed = [message.data for message in stream.take(2, "job")]
    assert [(event["job"], event["name"], event["state"]) for event in streamed] == [
        (job, "first", "pending"),
        (job, "first", "running"),
    ]
    assert streamed[0].keys() == {"id", "job", "name", "at_s", "kind", "state", "attempt", "cause"}
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


def test_more_events_than_one_page_are_streamed_in_order(running: Live) -> None:
    running.rig.post("jobs", json={"file": {"command": ["true"], "gpus": 1, "sweep": {"n": list(range(1200))}}})
    stream = running.stream("events?after=0")
    numbers = [message.data["id"] for message in stream.take(1200, "job")]
    assert numbers == sorted(set(numbers))
    stream.close()


def test_unknown_last_id_of_an_earlier_store_is_accepted(running: Live) -> None:
    stream = running.stream("events", last_id="999999")
    next(iter(stream))
    job = running.rig.submit()["id"]
    assert stream.take(1, "job")[0].data["job"] == job
    stream.close()


def test_events_of_other_tenants_are_not_streamed(running: Live) -> None:
    stream = running.stream("events?after=0", "bob")
    running.rig.submit("ann")
    mine = running.rig.submit("bob")["id"]
    assert stream.take(1, "job")[0].data["job"] == mine
    stream.close()


@pytest.mark.parametrize("last_id", ["x", "-1", "1;2", "9" * 30])
def test_invalid_last_ids_are_refused(running: Live, last_id: str) -> None:
    assert running.stream("events", last_id=last_id).response.status == 422


def test_heartbeats_are_sent(fast_heartbeat: Live) -> None:
    stream = iter(fast_heartbeat.stream("events"))
    assert [next(stream).event for _ in range(3)] == ["", "", ""]


def test_streams_of_a_revoked_token_end(fast_heartbeat: Live) -> None:
    made = fast_heartbeat.rig.post("tokens", json={}).json()
    stream = fast_heartbeat.stream("events", token=made["token"])
    next(iter(stream))
    fast_heartbeat.rig.call("DELETE", f"tokens/{made['id']}")
    assert all(message.event == "" for message in stream)


def test_streams_are_limited_and_released_when_closed(fast_heartbeat: Live) -> None:
    first, second = fast_heartbeat.stream("events"), fast_heartbeat.stream("events")
    refused = fast_heartbeat.stream("events")
    assert refused.response.status == 503
    assert refused.response.headers["Retry-After"]
    third = fast_heartbeat.stream("events", "bob")
    assert third.response.status == 200
    assert fast_heartbeat.stream("events", "amy").response.status == 503
    first.close()
    second.close()
    end_s = time.monotonic() + 20
    while fast_heartbeat.stream("events").response.status != 200:
        assert time.monotonic() < end_s
    third.close()


def test_streams_end_when_the_service_stops(running: Live) -> None:
    stream = running.stream("events")
    next(iter(stream))
    running.server.should_exit = True
    assert all(message.event == "" for message in stream)
    running.thread.join(20)
    assert not running.thread.is_alive()


def test_events_are_streamed_after_a_store_outage(fast_heartbeat: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpusquad.server import event_follow, keepalive
    from gpusquad.store.errors import StoreUnavailable

    monkeypatch.setattr(keepalive, "_STORE_AWAY_S", 0.01)
    stream = fast_heartbeat.stream("events")
    next(iter(stream))
    real, failed = event_follow.events.after, threading.Event()

    def broken(*_: object) -> list:
        failed.set()
        raise StoreUnavailable("away")

    monkeypatch.setattr(event_follow.events, "after", broken)
    job = fast_heartbeat.rig.submit()["id"]
    assert failed.wait(20)
    monkeypatch.setattr(event_follow.events, "after", real)
    assert stream.take(1, "job")[0].data["job"] == job
    stream.close()


# -- logs ----------------------------------------------------------------------------------------------------------


def text_of(messages, task: int | None = None) -> str:
    return "".join(
        message.data["text"] for message in messages if message.event == "log" and task in (None, message.data["task"])
    )


@pytest.mark.parametrize("is_watched", [True, False])
def test_logs_are_streamed_as_they_are_written(running: Live, is_watched: bool) -> None:
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


def test_log_stream_of_a_finished_job_ends_immediately(running: Live) -> None:
    rig = running.rig
    job = rig.submit()["id"]
    rig.logs.write(job, 0, 0, b"all of it")
    rig.scheduler.move(job, "succeeded")
    messages = list(running.stream(f"jobs/{job}/logs/stream"))
    assert text_of(messages) == "all of it"
    assert messages[-1].data == {"state": "succeeded"}


def test_log_stream_continues_with_the_next_attempt(running: Live) -> None:
    rig = running.rig
    job = rig.submit()["id"]
    rig.logs.write(job, 0, 0, b"first attempt\n")
    rig.scheduler.move(job, "pending", attempt=1)
    stream = running.stream(f"jobs/{job}/logs/stream")
    assert stream.take(1, "log")[0].data["attempt"] == 0
    rig.logs.write(job, 1, 0, b"second attempt\n")
    rig.scheduler.move(job, "succeeded")
    rest = list(stream)
    assert [(message.data["attempt"], message.data["text"]) for message in rest if message.event == "log"] == [
        (1, "second attempt\n")
    ]


def test_log_stream_never_splits_characters(make_rig: Callable[..., Rig]) -> None:
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
    logs = [message for message in seen if message.event == "log"]
    assert text_of(seen) == text + "\ufffd\ufffd"
    assert "\ufffd" not in text_of(logs[:-1])
    assert [message.data["next"] for message in logs[:-1]] == [message.data["offset"] for message in logs[1:]]
    assert logs[-1].data["next"] == len(data)


def test_log_stream_resumes_for_every_task(running: Live) -> None:
    rig = running.rig
    job = rig.submit(count=3)["id"]
    for task in range(3):
        rig.logs.write(job, 0, task, f"task {task} begins\n".encode())
    rig.scheduler.move(job, "running")
    stream = running.stream(f"jobs/{job}/logs/stream")
    seen = stream.take(3, "log")
    assert [bool(message.id) for message in seen] == [False, False, True]
    stream.close()
    for task in range(3):
        rig.logs.write(job, 0, task, f"task {task} ends\n".encode())
    rig.scheduler.move(job, "succeeded")
    seen += list(running.stream(f"jobs/{job}/logs/stream", last_id=seen[-1].id))
    for task in range(3):
        assert text_of(seen, task) == f"task {task} begins\ntask {task} ends\n"


def test_log_stream_is_filtered_by_task_and_tail(running: Live) -> None:
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


def test_log_stream_of_too_many_tasks_is_refused(running: Live) -> None:
    job = running.rig.submit(gpus=0, cpu=1, count=300)["id"]
    assert running.stream(f"jobs/{job}/logs/stream").response.status == 422
    running.rig.scheduler.move(job, "succeeded")
    assert running.stream(f"jobs/{job}/logs/stream?task=0").response.status == 200


def test_log_is_read_in_parts(rig: Rig) -> None:
    job = rig.submit()["id"]
    assert rig.get(f"jobs/{job}/logs").json() == {
        "task": 0, "attempt": 0, "offset": 0, "next": 0, "text": "", "end": False,
    }  # fmt: skip
    rig.logs.write(job, 0, 0, "aé🦑z\n".encode())
    text, offset = "", 0
    while True:
        part = rig.get(f"jobs/{job}/logs?offset={offset}&limit=1").json()
        if not part["text"]:
            break
        text, offset = text + part["text"], part["next"]
    assert text == "aé🦑z\n"
    assert part["end"] is False
    rig.scheduler.move(job, "succeeded")
    assert rig.get(f"jobs/{job}/logs?tail=1").json()["end"] is True
    assert rig.get(f"jobs/{job}/logs?tail=1&offset=0").status_code == 422
    missing = rig.get(f"jobs/{job}/logs?attempt=1")
    assert missing.status_code == 404
    assert missing.json()["error"]["message"] == f"job {job} has had 1 attempt"
    assert rig.get(f"jobs/{job}/logs?offset=999999").json()["text"] == ""


def test_requeued_job_shows_the_log_of_its_last_attempt(rig: Rig) -> None:
    job = rig.submit()["id"]
    rig.logs.write(job, 0, 0, b"before\n")
    rig.scheduler.move(job, "pending", attempt=1)
    part = rig.get(f"jobs/{job}/logs").json()
    assert (part["attempt"], part["text"], part["end"]) == (0, "before\n", True)


def test_stream_to_a_stalled_reader_is_closed(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(limits=ApiLimits(send_timeout_s=0.1, streams_of_one=1))
    with live(rig) as running:
        job = rig.submit()["id"]
        rig.logs.write(job, 0, 0, b"x" * 40_000_000)  # more than the socket buffers of both ends
        rig.scheduler.move(job, "running")
        stuck = running.stream(f"jobs/{job}/logs/stream")
        end_s = time.monotonic() + 20
        while (stream := running.stream(f"jobs/{job}/logs/stream?tail=0")).response.status != 200:
            assert time.monotonic() < end_s
            stream.close()
        stuck.close()
        stream.close()


class SplitLogReader(FakeLogReader):
    """Log files that may end within a character, with possible gaps between them."""

    def __init__(self, *pieces: tuple[int, bytes]) -> None:
        self._pieces = pieces

    def size(self, task: int) -> tuple[int, int]:
        last, data = self._pieces[-1]
        return self._pieces[0][0], last + len(data)

    def read(self, task: int, offset: int, limit: int) -> Chunk:
        for start, data in self._pieces:
            if offset < start + len(data):
                position = max(offset, start)
                part = data[position - start :][:limit]
                return Chunk(position, part, position + len(part))
        return Chunk(offset, b"", offset)


@pytest.mark.parametrize("cut", range(1, 9))
def test_characters_split_over_two_files_are_joined(cut: int) -> None:
    data = "é🦑🦑".encode()
    reader = SplitLogReader((0, data[:cut]), (cut, data[cut:]))
    assert _read_all(reader, is_finished=False) == "é🦑🦑"
    assert _read_all(reader, is_finished=True) == "é🦑🦑"


def test_incomplete_characters_are_replaced() -> None:
    broken = "🦑".encode()[:2]
    assert _read_all(SplitLogReader((0, b"a" + broken), (100, b"b")), is_finished=False) == "a\ufffdb"
    assert _read_all(SplitLogReader((0, b"a" + broken)), is_finished=False) == "a"
    assert _read_all(SplitLogReader((0, b"a" + broken)), is_finished=True) == "a\ufffd"


def _read_all(reader: FakeLogReader, is_finished: bool) -> str:
    text, offset = "", 0
    while True:
        part = read_part(reader, 0, offset, 4, is_finished)
        if part["next"] == offset:
            return text
        text, offset = text + part["text"], part["next"]


# -- log positions and broadcast -----------------------------------------------------------------------------------


def test_log_positions_are_parsed_back() -> None:
    for position in (
        LogPosition(0),
        LogPosition(3, {0: 5, 12: 0}),
        LogPosition(1, {task: 2**40 + task for task in range(256)}),
    ):
        assert LogPosition.parse(str(position)) == position
    for text in ("", "x", "1", "1;2", "1;2:3,", "-1;", "1;1:1 ", "1;" + ",".join(["1:1"] * 257)):
        with pytest.raises(Invalid):
            LogPosition.parse(text)


def test_broadcast_wakes_all_listeners(tmp_path: Path) -> None:
    async def listen() -> None:
        broadcast = Broadcast()
        broadcast.wake()  # has no effect without listeners
        with broadcast.listening() as listener, broadcast.listening() as other:
            thread = threading.Thread(target=lambda: [broadcast.wake() for _ in range(1000)])
            thread.start()
            assert await listener.wait(20)
            await asyncio.to_thread(thread.join)
            assert await other.wait(20)
            await listener.wait(0.01)
            assert not await listener.wait(0.01)
            broadcast.close()
            assert await listener.wait(20)
            assert listener.is_closed

    asyncio.run(listen())
