"""Tests of the status writer: content, rate and order of its writes, with a fake API server in virtual time."""

from __future__ import annotations

from collections import Counter

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.backlog import Urgency
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from tests.engines.kubernetes.status.builders import pending_reason, pod
from tests.engines.kubernetes.status.harness import WriterHarness, run_writer


def test_pending_pod_gets_an_event_and_a_condition() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, pending_reason("needs 8, 6 are idle"), Urgency.REASON)
        await harness.sleep_s(1)

    server = run_writer(1, StatusSettings(), script)
    [event] = server.events.values()
    assert event["message"] == "needs 8, 6 are idle"
    [condition] = server.status["p0"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")


def test_writes_for_ten_thousand_pods_are_rate_limited() -> None:
    async def script(harness: WriterHarness) -> None:
        for number, pending in enumerate(harness.all):
            harness.writer.enqueue([pending], pending_reason(f"number {number} in line"), Urgency.REASON, number)
        await harness.sleep_s(60)

    server = run_writer(10_000, StatusSettings(per_second=10.0, burst=50.0), script)
    assert 600 <= len(server.writes) <= 50 + 60 * 10 + 1
    written = {path.split("/")[-1].split(".")[0] for path in server.events}
    assert written == {f"p{number}" for number in range(len(written))}  # written in queue order


def test_changing_numbers_are_written_once_a_minute_and_counted() -> None:
    async def script(harness: WriterHarness) -> None:
        for idle in range(600):
            harness.writer.enqueue(harness.all, pending_reason(f"{idle} are idle"), Urgency.REASON)
            await harness.sleep_s(1)

    server = run_writer(1, StatusSettings(), script)
    [event] = server.events.values()
    assert event["count"] == 10
    assert server.status["p0"]["conditions"][0]["message"] == event["message"]


def test_reason_that_changed_back_is_not_written() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        await harness.sleep_s(1)
        harness.writer.enqueue(harness.all, pending_reason("held by ann"), Urgency.REASON)  # delayed to avoid flapping
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        await harness.sleep_s(100)

    assert len(run_writer(1, StatusSettings(), script).events) == 1


def test_condition_is_not_written_when_the_pod_was_bound() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        seen = dict(harness.pods["uid-p0"]["metadata"])
        harness.server.pods = {"uid-p0": pod("p0") | {"metadata": seen | {"resourceVersion": "2"}}}
        await harness.sleep_s(0.1)
        harness.pods["uid-p0"]["spec"] |= {"nodeName": "n"}
        await harness.sleep_s(10)

    server = run_writer(1, StatusSettings(), script)
    assert server.status == {}


def test_deleted_pod_still_gets_its_stop_cause() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, StatusMessage("Preempted", "for big of ann"), Urgency.LEAVING)
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        harness.pods.clear()
        await harness.sleep_s(1)

    assert [event["reason"] for event in run_writer(1, StatusSettings(), script).events.values()] == ["Preempted"]


def test_normal_events_are_dropped_under_load_but_warnings_are_not() -> None:
    async def script(harness: WriterHarness) -> None:
        for pending in harness.all:
            harness.writer.enqueue([pending], StatusMessage("Scheduled", "assigned", is_warning=False))
            harness.writer.enqueue([pending], StatusMessage("Preempted", "for big"), Urgency.LEAVING)
        await harness.sleep_s(1000)

    settings = StatusSettings(per_second=10.0, burst=1.0, max_normal_events=20)
    reasons = Counter(event["reason"] for event in run_writer(200, settings, script).events.values())
    assert reasons == {"Preempted": 200, "Scheduled": 20}


def test_nominated_nodes_are_written_changed_and_removed() -> None:
    async def script(harness: WriterHarness) -> None:
        for nodes in ({"uid-p0": "n1", "uid-p1": "n2"}, {"uid-p0": "n1", "uid-p1": "n3"}, {}):
            harness.writer.nominate(harness.all, nodes)
            await harness.sleep_s(1)
            for name, status in harness.server.status.items():
                harness.pods[f"uid-{name}"]["status"]["nominatedNodeName"] = status["nominatedNodeName"]
            seen.append({name: status["nominatedNodeName"] for name, status in harness.server.status.items()})

    seen: list[dict] = []
    server = run_writer(2, StatusSettings(), script)
    assert seen == [{"p0": "n1", "p1": "n2"}, {"p0": "n1", "p1": "n3"}, {"p0": None, "p1": None}]
    assert len(server.writes) == 2 + 1 + 2


def test_dry_run_writes_only_events() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        harness.writer.nominate(harness.all, {"uid-p0": "n1"})
        await harness.sleep_s(10)

    server = run_writer(1, StatusSettings(), script, dry_run=True)
    [event] = server.events.values()
    assert (event["reason"], event["type"], event["message"]) == ("WouldWait", "Normal", "dry run: 6 are idle")
    assert server.status == {}


def test_write_is_retried_when_the_server_is_back() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.server.refuse = [ApiUnreachable("gone")]
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        await harness.sleep_s(100)

    server = run_writer(1, StatusSettings(), script)
    assert len(server.events) == 1
    assert server.writes[1][0] - server.writes[0][0] >= 30.0


def test_forbidden_writes_are_retried_rarely() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.server.refuse = [ApiRefused(403, "Forbidden")] * 100
        for number in range(100):
            harness.writer.enqueue(harness.all, pending_reason(f"reason {'abcdefghij'[number % 10]}"), Urgency.REASON)
            await harness.sleep_s(10)

    assert len(run_writer(1, StatusSettings(in_flight=1), script).writes) <= 4


def test_deleted_event_is_created_again() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        await harness.sleep_s(61)
        harness.server.events.clear()
        harness.writer.enqueue(harness.all, pending_reason("7 are idle"), Urgency.REASON)
        await harness.sleep_s(10)

    [event] = run_writer(1, StatusSettings(), script).events.values()
    assert (event["message"], event["count"]) == ("7 are idle", 1)


def test_nothing_is_written_when_the_rate_is_zero() -> None:
    async def script(harness: WriterHarness) -> None:
        harness.writer.enqueue(harness.all, pending_reason("6 are idle"), Urgency.REASON)
        harness.writer.nominate(harness.all, {"uid-p0": "n1"})
        await harness.sleep_s(10)

    assert run_writer(1, StatusSettings(per_second=0.0), script).writes == []
