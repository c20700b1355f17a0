"""What pods are told, how often, and in which order; the API server is played, and time is virtual."""

from __future__ import annotations

from collections import Counter

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.backlog import Urgency
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from tests.engines.kubernetes.status.made import pod, why
from tests.engines.kubernetes.status.scene import Scene, play


def test_a_pod_that_waits_says_why_in_an_event_and_its_condition() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, why("needs 8, 6 are idle"), Urgency.REASON)
        await s.pass_s(1)

    server = play(1, StatusSettings(), scene)
    [event] = server.events.values()
    assert event["message"] == "needs 8, 6 are idle"
    [condition] = server.status["p0"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")


def test_ten_thousand_pods_do_not_flood_the_server() -> None:
    async def scene(s: Scene) -> None:
        for number, one in enumerate(s.all):
            s.teller.enqueue([one], why(f"number {number} in line"), Urgency.REASON, number)
        await s.pass_s(60)

    server = play(10_000, StatusSettings(per_second=10.0, burst=50.0), scene)
    assert 600 <= len(server.writes) <= 50 + 60 * 10 + 1
    record = {path.split("/")[-1].split(".")[0] for path in server.events}
    assert record == {f"p{number}" for number in range(len(record))}  # who is first in line was told first


def test_ticking_numbers_are_told_once_a_minute_and_counted() -> None:
    async def scene(s: Scene) -> None:
        for idle in range(600):
            s.teller.enqueue(s.all, why(f"{idle} are idle"), Urgency.REASON)
            await s.pass_s(1)

    server = play(1, StatusSettings(), scene)
    [event] = server.events.values()
    assert event["count"] == 10
    assert server.status["p0"]["conditions"][0]["message"] == event["message"]


def test_what_changed_meanwhile_is_not_told() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        await s.pass_s(1)
        s.teller.enqueue(s.all, why("held by ann"), Urgency.REASON)  # waits, so as not to flap
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        await s.pass_s(100)

    assert len(play(1, StatusSettings(), scene).events) == 1


def test_a_pod_that_was_bound_meanwhile_is_not_called_unscheduled() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        seen = dict(s.pods["uid-p0"]["metadata"])
        s.server.pods = {"uid-p0": pod("p0") | {"metadata": seen | {"resourceVersion": "2"}}}
        await s.pass_s(0.1)
        s.pods["uid-p0"]["spec"] |= {"nodeName": "n"}
        await s.pass_s(10)

    server = play(1, StatusSettings(), scene)
    assert server.status == {}


def test_a_pod_that_is_gone_still_has_its_last_event() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, StatusMessage("Preempted", "for big of ann"), Urgency.LEAVING)
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        s.pods.clear()
        await s.pass_s(1)

    assert [event["reason"] for event in play(1, StatusSettings(), scene).events.values()] == ["Preempted"]


def test_normal_events_are_dropped_under_pressure_and_warnings_are_not() -> None:
    async def scene(s: Scene) -> None:
        for one in s.all:
            s.teller.enqueue([one], StatusMessage("Scheduled", "assigned", is_warning=False))
            s.teller.enqueue([one], StatusMessage("Preempted", "for big"), Urgency.LEAVING)
        await s.pass_s(1000)

    settings = StatusSettings(per_second=10.0, burst=1.0, max_normal_events=20)
    reasons = Counter(event["reason"] for event in play(200, settings, scene).events.values())
    assert reasons == {"Preempted": 200, "Scheduled": 20}


def test_promised_nodes_are_written_changed_and_taken_back() -> None:
    async def scene(s: Scene) -> None:
        for nodes in ({"uid-p0": "n1", "uid-p1": "n2"}, {"uid-p0": "n1", "uid-p1": "n3"}, {}):
            s.teller.nominate(s.all, nodes)
            await s.pass_s(1)
            for name, status in s.server.status.items():
                s.pods[f"uid-{name}"]["status"]["nominatedNodeName"] = status["nominatedNodeName"]
            seen.append({name: status["nominatedNodeName"] for name, status in s.server.status.items()})

    seen: list[dict] = []
    server = play(2, StatusSettings(), scene)
    assert seen == [{"p0": "n1", "p1": "n2"}, {"p0": "n1", "p1": "n3"}, {"p0": None, "p1": None}]
    assert len(server.writes) == 2 + 1 + 2


def test_dry_runs_write_events_and_nothing_else() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        s.teller.nominate(s.all, {"uid-p0": "n1"})
        await s.pass_s(10)

    server = play(1, StatusSettings(), scene, dry_run=True)
    [event] = server.events.values()
    assert (event["reason"], event["type"], event["message"]) == ("WouldWait", "Normal", "dry run: 6 are idle")
    assert server.status == {}


def test_told_again_when_the_server_is_back() -> None:
    async def scene(s: Scene) -> None:
        s.server.refuse = [ApiUnreachable("gone")]
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        await s.pass_s(100)

    server = play(1, StatusSettings(), scene)
    assert len(server.events) == 1
    assert server.writes[1][0] - server.writes[0][0] >= 30.0


def test_who_may_not_write_events_asks_rarely() -> None:
    async def scene(s: Scene) -> None:
        s.server.refuse = [ApiRefused(403, "Forbidden")] * 100
        for number in range(100):
            s.teller.enqueue(s.all, why(f"reason {'abcdefghij'[number % 10]}"), Urgency.REASON)
            await s.pass_s(10)

    assert len(play(1, StatusSettings(in_flight=1), scene).writes) <= 4


def test_a_forgotten_event_is_made_anew() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        await s.pass_s(61)
        s.server.events.clear()
        s.teller.enqueue(s.all, why("7 are idle"), Urgency.REASON)
        await s.pass_s(10)

    [event] = play(1, StatusSettings(), scene).events.values()
    assert (event["message"], event["count"]) == ("7 are idle", 1)


def test_nothing_is_told_where_nobody_wants_it() -> None:
    async def scene(s: Scene) -> None:
        s.teller.enqueue(s.all, why("6 are idle"), Urgency.REASON)
        s.teller.nominate(s.all, {"uid-p0": "n1"})
        await s.pass_s(10)

    assert play(1, StatusSettings(per_second=0.0), scene).writes == []
