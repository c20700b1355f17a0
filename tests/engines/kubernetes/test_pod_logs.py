"""Logs through the API server: every byte once, in order, however often and whenever it is asked."""

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


def pod(name: str, *, phase: str = "Running", attempt: int = 0, index: str = "0", first: str = "0", made: int = 0,
        node: str = "node") -> Object:  # fmt: skip
    said = {"gpusquad.io/job": "job", "gpusquad.io/attempt": str(attempt), "gpusquad.io/first-rank": first,
            "batch.kubernetes.io/job-completion-index": index}  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "team", "uid": name, "annotations": said,
                     "creationTimestamp": f"2026-01-01T00:00:{made:02}Z"},
        "spec": {"nodeName": node, "containers": [{"name": "sidecar"}, _MAIN]},
        "status": {"phase": phase},
    }  # fmt: skip


_MAIN = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}


@dataclass
class Cluster:
    """Pods and what they wrote, as the API server tells it."""

    pods: list[Object] = field(default_factory=list)
    written: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    """Lines with the tenth of a second they were written in; only the last may lack its end."""
    fails: Exception | None = None
    asked: list[dict[str, str]] = field(default_factory=list)

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
        self.asked.append(query)
        lines = self.written.get(path.split("/")[-2])
        if lines is None:
            raise ApiRefused(404, "NotFound")
        told = [
            f"{_time(at)} ".encode() + line for at, line in lines if _time(at)[:19] >= query.get("sinceTime", "")[:19]
        ]
        return b"".join(told)[: int(query["limitBytes"])]


def _time(tenths: int) -> str:
    return f"2026-01-01T00:{tenths // 600:02}:{tenths // 10 % 60:02}.{tenths % 10}00000000Z"


def reader_of(cluster: Cluster, logs: PodLogSource | None = None, attempt: int = 0) -> PodLogReader:
    logs = logs or PodLogSource(cluster, lambda job: JobLogInfo(attempt, False))
    reader = logs.reader("job", attempt)
    assert isinstance(reader, PodLogReader)
    return reader


lines = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([b"same\n", b"\n", b"a\rb\n", b"long" * 30 + b"\n"])))


@given(lines, st.lists(st.integers(0, 40)), st.integers(1, 50))
def test_every_byte_is_read_once(steps: list[tuple[int, bytes]], looks: list[int], limit: int):
    """Also lines that are the same, at the same instant."""
    cluster = Cluster([pod("a")], {"a": []})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    got, offset, now = b"", 0, 0
    for number, (later, line) in enumerate(steps):
        now += later
        cluster.written["a"].append((now, line))
        if number in looks:
            chunk = reader_of(cluster, logs).read(0, offset, limit)
            got, offset = got + chunk.data, chunk.next_offset
    reader = reader_of(cluster, logs)
    while (chunk := reader.read(0, offset, limit)).data:
        got, offset = got + chunk.data, chunk.next_offset
    assert got == b"".join(line for _, line in steps)
    assert reader.size(0) == (0, len(got))


def test_a_line_is_told_when_it_is_whole_or_the_pod_is_over():
    cluster = Cluster([pod("a")], {"a": [(0, b"one\n"), (1, b"tw")]})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    assert reader_of(cluster, logs).read(0, 0, 100).data == b"one\n"
    cluster.pods = [pod("a", phase="Succeeded")]
    assert reader_of(cluster, logs).read(0, 4, 100).data == b"tw"
    asked = len(cluster.asked)
    assert reader_of(cluster, logs).size(0) == (0, 6)
    assert len(cluster.asked) == asked, "all of it is here"


def test_a_log_that_was_rotated_goes_on():
    cluster = Cluster([pod("a")], {"a": [(0, b"1\n"), (1, b"2\n")]})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    reader_of(cluster, logs).size(0)
    cluster.written["a"] = [(2, b"3\n")]
    assert reader_of(cluster, logs).read(0, 4, 100).data == b"3\n"


def test_more_than_comes_at_a_time_comes_in_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pod_logs, "MAX_READ_BYTES", 64)
    told = [(0, f"line {number}\n".encode()) for number in range(20)]
    cluster = Cluster([pod("a")], {"a": told})
    assert reader_of(cluster).read(0, 0, 1000).data == b"".join(line for _, line in told)


def test_a_task_goes_on_in_the_next_pod():
    cluster = Cluster(
        [pod("b", made=2), pod("a", phase="Failed", made=1)], {"a": [(5, b"first\n")], "b": [(0, b"2\n")]}
    )
    assert reader_of(cluster).read(0, 0, 100).data == b"first\n2\n"


def test_only_the_newest_is_kept_and_offsets_stay_true():
    spool = Spool(max_bytes=4)
    spool.take(b"2026-01-01T00:00:00Z ab\n2026-01-01T00:00:00Z cd\n", is_last=False)
    assert (spool.start, spool.end) == (2, 6)
    assert spool.read(0, 100) == pod_logs.PodLogChunk(2, b"\ncd\n", 6)


@pytest.mark.parametrize(("count", "offset"), [(0, 6), (1, 4), (2, 2), (3, 0), (9, 0)])
def test_the_last_lines(count: int, offset: int):
    cluster = Cluster([pod("a")], {"a": [(0, b"1\n"), (0, b"2\n"), (0, b"3\n")]})
    assert reader_of(cluster).tail(0, count) == offset


def test_tasks_are_counted_by_their_rank():
    pods = [pod("c", index="1", first="1"), pod("l"), pod("b", index="0", first="1"), pod("waits", index="9", node="")]
    assert {task: names(found) for task, found in tasks_of(pods).items()} == {0: ["l"], 1: ["b"], 2: ["c"]}


def test_a_rank_whose_pod_is_gone_leaves_its_number():
    assert list(tasks_of([pod("c", index="1", first="1")])) == [2]


def names(pods: Sequence[Object]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def test_the_container_with_the_cards_is_read():
    cluster = Cluster([pod("a")], {"a": []})
    reader_of(cluster).size(0)
    assert cluster.asked[0]["container"] == "main"


@pytest.mark.parametrize(
    ("run", "attempt", "told"),
    [(JobLogInfo(1, False), 0, GONE), (JobLogInfo(0, True), 0, GONE), (JobLogInfo(0, False), 0, None)],
    ids=["an earlier attempt", "it is over", "it waits"],
)
def test_logs_that_are_gone_are_said_to_be(run: JobLogInfo, attempt: int, told: str | None):
    reader = PodLogSource(Cluster(), lambda job: run).reader("job", attempt)
    assert (reader and reader.read(0, 0, 1000).data.decode()) == told


def test_each_attempt_has_its_own_pods():
    cluster = Cluster([pod("a", phase="Failed"), pod("b", attempt=1, made=1)], {"a": [(0, b"a\n")], "b": [(0, b"b\n")]})
    logs = PodLogSource(cluster, lambda job: JobLogInfo(1, False))
    assert reader_of(cluster, logs, 0).read(0, 0, 9).data == b"a\n"
    assert reader_of(cluster, logs, 1).read(0, 0, 9).data == b"b\n"


@pytest.mark.parametrize("error", [ApiUnreachable("no"), ApiRefused(403, "Forbidden"), ApiRefused(500)])
def test_what_cannot_be_had_now_is_not_taken_for_nothing(error: Exception):
    cluster = Cluster([pod("a")], {"a": [(0, b"a\n")]}, error)
    logs = PodLogSource(cluster, lambda job: JobLogInfo(0, False))
    with pytest.raises(ConnectionError):
        reader_of(cluster, logs).size(0)
    cluster.fails = None
    assert reader_of(cluster, logs).size(0) == (0, 2)


def test_a_container_that_has_not_started_wrote_nothing():
    cluster = Cluster([pod("a")], {}, ApiRefused(400, "BadRequest"))
    assert reader_of(cluster).size(0) == (0, 0)
