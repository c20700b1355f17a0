"""What pods are told, how often, and in which order; the API server is played, and time is virtual."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.api import Refused, Unreachable
from gpusquad.engines.kubernetes.objects import Object
from gpusquad.engines.kubernetes.telling.backlog import Backlog, Entry, Urgency
from gpusquad.engines.kubernetes.telling.conditions import Conditions, waits
from gpusquad.engines.kubernetes.telling.events import Events
from gpusquad.engines.kubernetes.telling.limits import Bucket, Patience
from gpusquad.engines.kubernetes.telling.saying import FAILED_SCHEDULING, Saying, shortened, without_numbers
from gpusquad.engines.kubernetes.telling.settings import TellingSettings
from gpusquad.engines.kubernetes.telling.teller import Teller
from tests.engines.kubernetes.virtual_time import run_virtually

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def pod(name: str = "a", **more: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"schedulerName": "gpusquad"}, "status": {"phase": "Pending"}, **more}


def why(message: str) -> Saying:
    return Saying(FAILED_SCHEDULING, message, is_why=True)


# -- the same, or news -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("needs 8 idle cards, 6 are idle", "needs 8 idle cards, 7 are idle"),
        ("needs 8 GPUs", "needs 1 GPU"),
        ("promised in 2h05m, wait", "promised in 59m, wait"),
        ("promised in 14.8s, wait", "promised in 3d02h, wait"),
        ("from 14:05 UTC (in 25 min)", "from 14:07 UTC (in 1 h 3 min)"),
        ("behind 01hzx7k2m9qd3w5r8t1v4y6a0b, wait", "behind 3d190wtybaypsj955vh847ecdh, wait"),
        ("1,024 waiting", "999 waiting"),
    ],
)
def test_numbers_that_tick_are_no_news(one: str, other: str) -> None:
    assert without_numbers(one) == without_numbers(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("needs 8 idle cards", "tenant nlp holds 8 of at most 8 GPUs"),
        ("would delay big", "would delay small"),
        ("waits for 3 pods", "waits for 3 nodes"),
    ],
)
def test_words_are_news(one: str, other: str) -> None:
    assert without_numbers(one) != without_numbers(other)


@given(st.text(), st.integers(8, 2000))
def test_no_message_is_too_long(text: str, most: int) -> None:
    assert len(shortened(text, most).encode()) <= most


# -- how often for one pod ---------------------------------------------------------------------------------------------


def test_one_pod_hears_the_same_with_other_numbers_once_a_minute() -> None:
    patience = Patience(TellingSettings())
    assert patience.delay_s("u", why("6 are idle"), 0.0) == 0.0
    patience.told("u", why("6 are idle"), 0.0)
    assert patience.delay_s("u", why("7 are idle"), 10.0) == pytest.approx(50.0)
    assert patience.delay_s("u", why("7 are idle"), 60.0) == 0.0


def test_news_waits_only_as_long_as_it_takes_not_to_flap() -> None:
    patience = Patience(TellingSettings(flap_s=5.0))
    patience.told("u", why("6 are idle"), 0.0)
    assert patience.delay_s("u", why("the tenant's limit"), 1.0) == pytest.approx(4.0)
    assert patience.delay_s("u", why("the tenant's limit"), 6.0) == 0.0


def test_the_very_same_is_told_again_before_the_server_forgets_it() -> None:
    patience = Patience(TellingSettings(repeat_s=300.0))
    patience.told("u", why("6 are idle"), 0.0)
    assert patience.delay_s("u", why("6 are idle"), 299.0) is None
    assert patience.delay_s("u", why("6 are idle"), 300.0) == 0.0


def test_pods_and_reasons_do_not_hold_each_other_up() -> None:
    patience = Patience(TellingSettings())
    patience.told("u", why("6 are idle"), 0.0)
    assert patience.delay_s("v", why("6 are idle"), 0.0) == 0.0
    assert patience.delay_s("u", Saying("Preempted", "6 are idle"), 0.0) == 0.0


def test_what_is_remembered_is_bounded() -> None:
    patience = Patience(TellingSettings(), most=3)
    for number in range(10):
        patience.told(f"u{number}", why("x"), 0.0)
    assert [patience.delay_s(f"u{number}", why("x"), 1.0) is None for number in (6, 7, 8, 9)] == [False, *3 * [True]]


# -- how often for all -------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.0, 3.0), max_size=60), st.floats(0.5, 50.0), st.floats(1.0, 20.0))
def test_the_bucket_never_gives_more_than_it_may(steps: list[float], per_second: float, burst: float) -> None:
    bucket, now_s, taken = Bucket(per_second, burst), 0.0, []
    for step in steps:
        now_s += step
        if bucket.wait_s(now_s) == 0.0:
            taken.append(now_s)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + (taken[last] - taken[first]) * per_second + 1e-6


def test_whoever_waits_as_long_as_told_gets_one() -> None:
    bucket = Bucket(per_second=4.0, burst=1.0)
    assert bucket.wait_s(0.0) == 0.0
    wait_s = bucket.wait_s(0.0)
    assert wait_s == pytest.approx(0.25)
    assert bucket.wait_s(wait_s) == 0.0


# -- events ------------------------------------------------------------------------------------------------------------


def test_the_same_again_is_counted() -> None:
    events = Events()
    first = events.write_for(pod(), why("6 of 8 are idle"), NOW)
    assert first.is_new
    assert first.content["involvedObject"]["uid"] == "uid-a"
    assert (first.content["type"], first.content["reason"], first.content["count"]) == ("Warning", FAILED_SCHEDULING, 1)
    events.written(first, NOW)
    later = NOW + timedelta(seconds=60)
    again = events.write_for(pod(), why("7 of 8 are idle"), later)
    assert not again.is_new
    assert again.path == f"/api/v1/namespaces/default/events/{first.content['metadata']['name']}"
    assert again.content == {"count": 2, "lastTimestamp": "2026-03-01T12:01:00Z", "message": "7 of 8 are idle"}


def test_another_pod_reason_kind_or_text_is_another_event() -> None:
    events = Events()
    events.written(events.write_for(pod(), why("6 are idle"), NOW), NOW)
    for other_pod, saying in (
        (pod("b"), why("6 are idle")),
        (pod(), why("held by ann")),
        (pod(), Saying("Preempted", "6 are idle")),
        (pod(), Saying(FAILED_SCHEDULING, "6 are idle", is_warning=False)),
    ):
        assert events.write_for(other_pod, saying, NOW).is_new


def test_an_event_that_the_server_may_have_forgotten_is_made_anew() -> None:
    events = Events()
    events.written(events.write_for(pod(), why("x"), NOW), NOW)
    assert events.write_for(pod(), why("x"), NOW + timedelta(minutes=55)).is_new


# -- conditions --------------------------------------------------------------------------------------------------------


def test_a_condition_is_written_once_and_keeps_its_time() -> None:
    conditions = Conditions()
    first = conditions.patch_for(pod(), "6 are idle", NOW)
    assert first is not None
    assert first["metadata"] == {"uid": "uid-a", "resourceVersion": "1"}
    assert first["status"]["conditions"][0]["lastTransitionTime"] == "2026-03-01T12:00:00Z"
    conditions.written(pod(), "6 are idle")
    assert conditions.patch_for(pod(), "6 are idle", NOW) is None
    second = conditions.patch_for(pod(), "7 are idle", NOW)
    assert second is not None
    assert "lastTransitionTime" not in second["status"]["conditions"][0]


@pytest.mark.parametrize(
    "more",
    [
        {"spec": {"nodeName": "n"}},
        {"spec": {"schedulingGates": [{"name": "x/y"}]}},
        {"status": {"phase": "Succeeded"}},
        {"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "now"}},
    ],
)
def test_only_pods_that_wait_for_us_are_written_to(more: Object) -> None:
    assert waits(pod())
    assert not waits(pod() | more)


# -- the order ---------------------------------------------------------------------------------------------------------


def entry(name: str, urgency: Urgency = Urgency.WHY, number: int = 0, place: int = 0, warning: bool = True) -> Entry:
    return Entry(name, Saying("R", "x", warning), urgency, number, place)


def test_the_most_urgent_and_first_in_line_go_first() -> None:
    backlog = Backlog(10)
    for one in (
        entry("late", place=9),
        entry("usual", Urgency.USUAL),
        entry("second-pod", number=1, place=1),
        entry("first", place=1),
        entry("leaves", Urgency.LEAVING, place=50),
    ):
        backlog.put(one)
    taken = [one.uid for one in iter(lambda: backlog.take(0.0), None)]
    assert taken == ["leaves", "first", "second-pod", "late", "usual"]


def test_only_the_newest_text_waits() -> None:
    backlog = Backlog(10)
    backlog.put(Entry("u", why("old"), Urgency.WHY))
    backlog.put(Entry("u", why("new"), Urgency.WHY), due_s=5.0, now_s=0.0)
    assert len(backlog) == 1
    assert backlog.take(4.9) is None
    assert backlog.next_s() == 5.0
    found = backlog.take(5.0)
    assert found is not None
    assert found.saying == why("new")


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3), st.floats(0, 9), st.booleans()), max_size=80
    )
)
def test_warnings_are_never_lost_and_nothing_is_told_twice(moves: list) -> None:
    """Whatever comes: each slot has its newest text, warnings find room, normal ones are bounded."""
    backlog, expected, now_s = Backlog(most_unimportant=3), {}, 0.0
    for number, warning, place, due_s, take in moves:
        if take:
            found = backlog.take(now_s)
            if found is not None:
                assert expected.pop(found.slot) == found
        else:
            one = Entry(f"u{number}", Saying("W" if warning else "N", "x", warning), Urgency.WHY, 0, place)
            taken = backlog.put(one, now_s + due_s, now_s)
            expected.pop(one.slot, None)
            assert taken or not warning
            if taken:
                expected[one.slot] = one
        assert sum(not one.saying.is_warning for one in expected.values()) <= 3
        assert backlog.gangs == len(backlog) == len(expected)
        now_s += 1.0
    assert {one.slot for one in iter(lambda: backlog.take(now_s + 100), None)} == expected.keys()


# -- the teller --------------------------------------------------------------------------------------------------------


class Server:
    """Keeps events and conditions as the API server would, and says when each was written."""

    def __init__(self, pods: dict[str, Object]) -> None:
        self.pods = pods
        self.writes: list[tuple[float, str, str]] = []
        self.events: dict[str, Object] = {}
        self.status: dict[str, Object] = {}
        self.refuse: list[Exception] = []

    async def post(self, path: str, content: Object) -> Object:
        self._note("POST", path)
        self.events[f"{path}/{content['metadata']['name']}"] = content
        return content

    async def patch(self, path: str, content: Object, *, kind: str = "merge") -> Object:
        self._note("PATCH", path)
        if "/events/" in path:
            if path not in self.events:
                raise Refused(404, "NotFound")
            self.events[path] |= content
        else:
            name = path.split("/")[-2]
            if self.pods[f"uid-{name}"]["metadata"]["resourceVersion"] != content["metadata"]["resourceVersion"]:
                raise Refused(409, "Conflict")
            self.status.setdefault(name, {}).update(content["status"])
        return {}

    def _note(self, method: str, path: str) -> None:
        self.writes.append((asyncio.get_running_loop().time(), method, path))
        if self.refuse:
            raise self.refuse.pop(0)


class Scene:
    """A teller and its server, in virtual time."""

    def __init__(self, count: int, settings: TellingSettings, **more: bool) -> None:
        loop = asyncio.get_running_loop()
        self.pods = {f"uid-p{number}": pod(f"p{number}") for number in range(count)}
        self.server = Server(self.pods)
        begin_s = loop.time()
        self.teller = Teller(
            self.server, self.pods.get, settings, clock_s=loop.time,
            now=lambda: NOW + timedelta(seconds=loop.time() - begin_s), **more,
        )  # fmt: skip
        self._task = loop.create_task(self.teller.run())

    @property
    def all(self) -> list[Object]:
        return list(self.pods.values())

    async def pass_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def play(count: int, settings: TellingSettings, scene, **more: bool) -> Server:
    async def run() -> Server:
        one = Scene(count, settings, **more)
        await scene(one)
        await one.end()
        return one.server

    return run_virtually(run())


def test_a_pod_that_waits_says_why_in_an_event_and_its_condition() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, why("needs 8, 6 are idle"), Urgency.WHY)
        await s.pass_s(1)

    server = play(1, TellingSettings(), scene)
    [event] = server.events.values()
    assert event["message"] == "needs 8, 6 are idle"
    [condition] = server.status["p0"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")


def test_ten_thousand_pods_do_not_flood_the_server() -> None:
    async def scene(s: Scene) -> None:
        for number, one in enumerate(s.all):
            s.teller.say([one], why(f"number {number} in line"), Urgency.WHY, number)
        await s.pass_s(60)

    server = play(10_000, TellingSettings(per_second=10.0, burst=50.0), scene)
    assert 600 <= len(server.writes) <= 50 + 60 * 10 + 1
    told = {path.split("/")[-1].split(".")[0] for path in server.events}
    assert told == {f"p{number}" for number in range(len(told))}  # who is first in line was told first


def test_ticking_numbers_are_told_once_a_minute_and_counted() -> None:
    async def scene(s: Scene) -> None:
        for idle in range(600):
            s.teller.say(s.all, why(f"{idle} are idle"), Urgency.WHY)
            await s.pass_s(1)

    server = play(1, TellingSettings(), scene)
    [event] = server.events.values()
    assert event["count"] == 10
    assert server.status["p0"]["conditions"][0]["message"] == event["message"]


def test_what_changed_meanwhile_is_not_told() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        await s.pass_s(1)
        s.teller.say(s.all, why("held by ann"), Urgency.WHY)  # waits, so as not to flap
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        await s.pass_s(100)

    assert len(play(1, TellingSettings(), scene).events) == 1


def test_a_pod_that_was_bound_meanwhile_is_not_called_unscheduled() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        seen = dict(s.pods["uid-p0"]["metadata"])
        s.server.pods = {"uid-p0": pod("p0") | {"metadata": seen | {"resourceVersion": "2"}}}
        await s.pass_s(0.1)
        s.pods["uid-p0"]["spec"] |= {"nodeName": "n"}
        await s.pass_s(10)

    server = play(1, TellingSettings(), scene)
    assert server.status == {}


def test_a_pod_that_is_gone_still_has_its_last_event() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, Saying("Preempted", "for big of ann"), Urgency.LEAVING)
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        s.pods.clear()
        await s.pass_s(1)

    assert [event["reason"] for event in play(1, TellingSettings(), scene).events.values()] == ["Preempted"]


def test_normal_events_are_dropped_under_pressure_and_warnings_are_not() -> None:
    async def scene(s: Scene) -> None:
        for one in s.all:
            s.teller.say([one], Saying("Scheduled", "assigned", is_warning=False))
            s.teller.say([one], Saying("Preempted", "for big"), Urgency.LEAVING)
        await s.pass_s(1000)

    settings = TellingSettings(per_second=10.0, burst=1.0, most_unimportant=20)
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
    server = play(2, TellingSettings(), scene)
    assert seen == [{"p0": "n1", "p1": "n2"}, {"p0": "n1", "p1": "n3"}, {"p0": None, "p1": None}]
    assert len(server.writes) == 2 + 1 + 2


def test_dry_runs_write_events_and_nothing_else() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        s.teller.nominate(s.all, {"uid-p0": "n1"})
        await s.pass_s(10)

    server = play(1, TellingSettings(), scene, dry_run=True)
    [event] = server.events.values()
    assert (event["reason"], event["type"], event["message"]) == ("WouldWait", "Normal", "dry run: 6 are idle")
    assert server.status == {}


def test_told_again_when_the_server_is_back() -> None:
    async def scene(s: Scene) -> None:
        s.server.refuse = [Unreachable("gone")]
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        await s.pass_s(100)

    server = play(1, TellingSettings(), scene)
    assert len(server.events) == 1
    assert server.writes[1][0] - server.writes[0][0] >= 30.0


def test_who_may_not_write_events_asks_rarely() -> None:
    async def scene(s: Scene) -> None:
        s.server.refuse = [Refused(403, "Forbidden")] * 100
        for number in range(100):
            s.teller.say(s.all, why(f"reason {'abcdefghij'[number % 10]}"), Urgency.WHY)
            await s.pass_s(10)

    assert len(play(1, TellingSettings(in_flight=1), scene).writes) <= 4


def test_a_forgotten_event_is_made_anew() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        await s.pass_s(61)
        s.server.events.clear()
        s.teller.say(s.all, why("7 are idle"), Urgency.WHY)
        await s.pass_s(10)

    [event] = play(1, TellingSettings(), scene).events.values()
    assert (event["message"], event["count"]) == ("7 are idle", 1)


def test_nothing_is_told_where_nobody_wants_it() -> None:
    async def scene(s: Scene) -> None:
        s.teller.say(s.all, why("6 are idle"), Urgency.WHY)
        s.teller.nominate(s.all, {"uid-p0": "n1"})
        await s.pass_s(10)

    assert play(1, TellingSettings(per_second=0.0), scene).writes == []
