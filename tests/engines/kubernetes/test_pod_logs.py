"""Tests of pod logs read through the API server: every byte once and in order."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes import pod_logs
from gpusquad.engines.kubernetes.pod_logs import GONE, JobLogInfo, PodLogReader, PodLogSource, Spool, tasks_of
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object


def pod(name: str, *, phase: str = "Running", attempt: int = 0, index: str = "0", first: str = "0", created: int = 0,
        node: str = "node") -> Object:  # fmt: skip
    annotations = {"gpusquad.io/job": "job", "gpusquad.io/attempt": str(attempt), "gpusquad.io/first-rank": first,
            "batch.kubernetes.io/job-completion-index": index}  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "annotations": annotations,
                     "creationTimestamp": f"2026-01-01T00:00:{created:02}Z"},
        "spec": {"nodeName": node, "containers": [{"name": "sidecar"}, _MAIN]},
        "status": {"phase": phase},
    }  # fmt: skip


_MAIN = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


@dataclass
class FakeCluster:
    """Pods and their logs, as the API server returns them."""

    pods: list[Object] = field(default_factory=list)
    written: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    """Lines with their time in tenths of a second; only the last may be incomplete."""
    fails: Exception | None = None
    requests: list[dict[str, str]] = field(default_factory=list)

    def call_api(self, work: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            done.set_result(asyncio.run(work(self)))
        except Exception as error:
            done.set_exception(error)
        return done

    def pods_of(self, job_id: str) -> list[Object]:
        return self.pods

    async def read(self, path: str, **query: str) -> bytes:
        if self.fails is not None:
            raise self.fails
        self.requests.append(query)
        lines = self.written.get(path.split("/")[-2])
        if lines is None:
            raise ApiRefused(404, "NotFound")
        sent = [
            f"{_time(at)} ".encode() + line for at, line in lines if _time(at)[:19] >= query.get("sinceTime", "")[:19]
        ]
        return b"".join(sent)[: int(query["limitBytes"])]


def _time(tenths: int) -> str:
    return f"2026-01-01T00:{tenths // 600:02}:{tenths // 10 % 60:02}.{tenths % 10}00000000Z"


def reader_of(cluster: FakeCluster, logs: PodLogSource | None = None, attempt: int = 0) -> PodLogReader:
    logs = logs or PodLogSource(cluster, lambda job: JobLogInfo(attempt, False))
    reader = logs.reader("job", attempt)
    assert isinstance(reader, PodLogReader)
    return reader


lines = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([b"same\n", b"\n", b"a\rb\n", b"long" * 30 + b"\n"])))


@given(lines, st.lists(st.integers(0, 40)), st.integers(1, 50))
def test_every_byte_is_read_once_and_in_order(steps: list[tuple[int, bytes]], read_after: list[int], limit: int):
    """Including equal lines with equal times."""
    cluster = FakeCluster([pod("a")], {"a": []})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    received, offset, now = b"", 0, 0
    for number, (later, line) in enumerate(steps):
        now += later
        cluster.written["a"].append((now, line))
        if number in read_after:
            chunk = reader_of(cluster, logs).read(0, offset, limit)
            received, offset = received + chunk.data, chunk.next_offset
    reader = reader_of(cluster, logs)
    while (chunk := reader.read(0, offset, limit)).data:
        received, offset = received + chunk.data, chunk.next_offset
    assert received == b"".join(line for _, line in steps)
    assert reader.size(0) == (0, len(received))


def test_incomplete_line_is_read_when_the_pod_has_ended():
    cluster = FakeCluster([pod("a")], {"a": [(0, b"one\n"), (1, b"tw")]})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    assert reader_of(cluster, logs).read(0, 0, 100).data == b"one\n"
    cluster.pods = [pod("a", phase="Succeeded")]
    assert reader_of(cluster, logs).read(0, 4, 100).data == b"tw"
    request_count = len(cluster.requests)
    assert reader_of(cluster, logs).size(0) == (0, 6)
    assert len(cluster.requests) == request_count, "the log is complete"


def test_rotated_log_continues():
    cluster = FakeCluster([pod("a")], {"a": [(0, b"1\n"), (1, b"2\n")]})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    reader_of(cluster, logs).size(0)
    cluster.written["a"] = [(2, b"3\n")]
    assert reader_of(cluster, logs).read(0, 4, 100).data == b"3\n"


def test_long_log_is_read_in_several_requests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pod_logs, "MAX_READ_BYTES", 64)
    written = [(0, f"line {number}\n".encode()) for number in range(20)]
    cluster = FakeCluster([pod("a")], {"a": written})
    assert reader_of(cluster).read(0, 0, 1000).data == b"".join(line for _, line in written)


def test_log_of_a_task_continues_in_its_next_pod():
    cluster = FakeCluster(
        [pod("b", created=2), pod("a", phase="Failed", created=1)], {"a": [(5, b"first\n")], "b": [(0, b"2\n")]}
    )
    assert reader_of(cluster).read(0, 0, 100).data == b"first\n2\n"


def test_spool_keeps_the_newest_bytes_and_their_offsets():
    spool = Spool(max_bytes=4)
    spool.take(b"2026-01-01T00:00:00Z ab\n2026-01-01T00:00:00Z cd\n", is_last=False)
    assert (spool.start, spool.end) == (2, 6)
    assert spool.read(0, 100) == pod_logs.PodLogChunk(2, b"\ncd\n", 6)


@pytest.mark.parametrize(("count", "offset"), [(0, 6), (1, 4), (2, 2), (3, 0), (9, 0)])
def test_tail_gives_the_offset_of_the_last_lines(count: int, offset: int):
    cluster = FakeCluster([pod("a")], {"a": [(0, b"1\n"), (0, b"2\n"), (0, b"3\n")]})
    assert reader_of(cluster).tail(0, count) == offset


def test_tasks_are_numbered_by_rank():
    pods = [pod("c", index="1", first="1"), pod("l"), pod("b", index="0", first="1"), pod("waits", index="9", node="")]
    assert {task: names(found) for task, found in tasks_of(pods).items()} == {0: ["l"], 1: ["b"], 2: ["c"]}


def test_task_number_does_not_change_when_other_pods_are_gone():
    assert list(tasks_of([pod("c", index="1", first="1")])) == [2]


def names(pods: Sequence[Object]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def test_log_of_the_container_with_cards_is_read():
    cluster = FakeCluster([pod("a")], {"a": []})
    reader_of(cluster).size(0)
    assert cluster.requests[0]["container"] == "main"


@pytest.mark.parametrize(
    ("run", "attempt", "expected"),
    [(JobLogInfo(1, False), 0, GONE), (JobLogInfo(0, True), 0, GONE), (JobLogInfo(0, False), 0, None)],
    ids=["earlier attempt", "ended", "pending"],
)
def test_deleted_logs_are_reported_as_gone(run: JobLogInfo, attempt: int, expected: str | None):
    reader = PodLogSource(FakeCluster(), lambda job: run).reader("job", attempt)
    assert (reader and reader.read(0, 0, 1000).data.decode()) == expected


def test_each_attempt_has_the_logs_of_its_own_pods():
    cluster = FakeCluster(
        [pod("a", phase="Failed"), pod("b", attempt=1, created=1)], {"a": [(0, b"a\n")], "b": [(0, b"b\n")]}
    )
    logs = PodLogSource(cluster, lambda job: JobLogInfo(1, False))
    assert reader_of(cluster, logs, 0).read(0, 0, 9).data == b"a\n"
    assert reader_of(cluster, logs, 1).read(0, 0, 9).data == b"b\n"


@pytest.mark.parametrize("error", [ApiUnreachable("no"), ApiRefused(403, "Forbidden"), ApiRefused(500)])
def test_temporary_error_is_raised_and_the_log_read_later(error: Exception):
    cluster = FakeCluster([pod("a")], {"a": [(0, b"a\n")]}, error)
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    with pytest.raises(ConnectionError):
        reader_of(cluster, logs).size(0)
    cluster.fails = None
    assert reader_of(cluster, logs).size(0) == (0, 2)


def test_container_that_has_not_started_has_an_empty_log():
    cluster = FakeCluster([pod("a")], {}, ApiRefused(400, "BadRequest"))
    assert reader_of(cluster).size(0) == (0, 0)
