"""Tests of the reflector: it ends with the server's objects and reports every change once, whatever fails."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi, ObjectList
from gpusquad.engines.kubernetes.client.reflector import Reflector
from gpusquad.engines.kubernetes.pruning import shrink_other
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object, key_of

Step = tuple[str, ...]
Change = tuple[str, Object, Object | None]


class Finished(BaseException):
    """The script is finished and all events are delivered."""


class ScriptedApi:
    """A collection that changes and a connection that fails according to a script, without real time."""

    def __init__(self, script: Iterable[Step]) -> None:
        self.script = deque(script)
        self.objects: dict[str, Object] = {}
        self.log: list[tuple[int, str, Object]] = []
        self.version = 1
        self.oldest_version = 0
        self.refusals: deque[Exception] = deque()
        self.now_s = 0.0
        self.pauses_s: list[float] = []

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.pauses_s.append(seconds)
        self.now_s += seconds

    async def list(self, path: str, shrink: Callable[[Object], Object] | None = None, **query: str) -> ObjectList:
        self._change_meanwhile()
        self._refuse()
        items = [copy.deepcopy(item) for item in self.objects.values()]
        return ObjectList([shrink(item) if shrink else item for item in items], str(self.version))

    async def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Object, None]:
        self._refuse()
        if int(version) < self.oldest_version:
            raise ApiRefused(410, "Expired", "too old")
        position = sum(1 for number, _, _ in self.log if number <= int(version))
        while self.script:
            step = self.script.popleft()
            if step[0] == "deliver" and position < len(self.log):
                position += 1
                yield self._event(position)
            elif step[0] == "again" and position:
                yield self._event(position)
            elif step[0] == "bookmark":
                at_end = position == len(self.log)
                reached = self.version if at_end else self.log[position - 1][0] if position else int(version)
                yield {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(reached)}}}
            elif step[0] == "error":
                yield {"type": "ERROR", "object": {"kind": "Status", "code": int(step[1]), "message": "no"}}
            elif step[0] == "end":
                return
            elif step[0] == "break":
                raise ApiUnreachable("cut")
            elif step[0] == "silence":
                self.now_s += 150.0
                raise ApiUnreachable("nothing came")
            elif step[0] == "due":
                self.now_s += 10_000.0
                return
            else:
                self._change(step)
        for number in range(position + 1, len(self.log) + 1):
            yield self._event(number)
        raise Finished

    def _event(self, position: int) -> Object:
        _, kind, item = self.log[position - 1]
        return {"type": kind, "object": copy.deepcopy(item)}

    def _refuse(self) -> None:
        if self.refusals:
            raise self.refusals.popleft()

    def _change_meanwhile(self) -> None:
        while self.script and self.script[0][0] in ("put", "delete", "replace"):
            self._change(self.script.popleft())

    def _change(self, step: Step) -> None:
        match step:
            case ("put", name):
                self._put(name)
            case ("delete", name):
                self._delete(name)
            case ("replace", name):
                self._delete(name)
                self._put(name)
            case ("compact",):
                self.oldest_version = self.version
            case ("elsewhere",):
                self.version += 1
            case ("refuse", status):
                self.refusals.append(
                    ApiRefused(int(status), "Because", "no") if int(status) else ApiUnreachable("away")
                )

    def _put(self, name: str) -> None:
        self.version += 1
        before = self.objects.get(name)
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.version)}
        self.objects[name] = {"metadata": metadata}
        self.log.append((self.version, "MODIFIED" if before else "ADDED", self.objects[name]))

    def _delete(self, name: str) -> None:
        before = self.objects.pop(name, None)
        if before is not None:
            self.version += 1
            last = {"metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
            self.log.append((self.version, "DELETED", last))


class Listener:
    """Keeps the reported objects and checks that the changes are consistent."""

    def __init__(self) -> None:
        self.known: dict[str, Object] = {}
        self.received: list[Change] = []
        self.ended: set[str] = set()

    def __call__(self, change: str, item: Object, before: Object | None) -> None:
        key, metadata = key_of(item), item["metadata"]
        assert before == self.known.get(key)
        if change == "added":
            assert before is None
        else:
            assert before is not None
            assert before["metadata"]["uid"] == metadata["uid"]
        if change == "changed":
            assert before is not None
            assert int(before["metadata"]["resourceVersion"]) < int(metadata["resourceVersion"])
        if change == "added":
            assert metadata["uid"] not in self.ended
        if change == "deleted":
            del self.known[key]
            self.ended.add(metadata["uid"])
        else:
            self.known[key] = item
        self.received.append((change, item, before))


def reflect(api: ScriptedApi, on_change: Callable[..., None], **more: Any) -> Reflector:
    """Run a reflector until the script is finished."""

    async def run() -> Reflector:
        reflector = Reflector(
            cast(AsyncKubeApi, api), "/things", on_change=on_change, clock=api.clock, sleep=api.sleep, **more
        )
        with contextlib.suppress(Finished):
            await reflector.run()
        return reflector

    return asyncio.run(run())


def changes(listener: Listener) -> list[str]:
    return [f"{change} {item['metadata']['name']}" for change, item, _ in listener.received]


names = st.sampled_from("aab")
steps = st.one_of(
    st.tuples(st.sampled_from(["put", "put", "delete", "replace"]), names),
    st.just(("deliver",)),
    st.just(("deliver",)),
    st.sampled_from(
        [("again",), ("bookmark",), ("end",), ("break",), ("silence",), ("due",), ("compact",), ("elsewhere",)]
    ),
    st.sampled_from([("error", "410"), ("error", "500")]),
    st.sampled_from([("refuse", status) for status in ("0", "404", "403", "410", "429", "500", "504")]),
)


@given(st.lists(steps, max_size=40).filter(lambda script: script.count(("refuse", "404")) <= 5))
def test_reflector_ends_with_the_servers_objects_after_any_script(script: list[Step]):
    api, listener = ScriptedApi(script), Listener()
    reflector = reflect(api, listener)
    expected = {key_of(item): item for item in api.objects.values()}
    assert reflector.items == expected
    assert listener.known == expected
    assert reflector.stats.changes == len(listener.received)


def test_changes_are_reported_in_order():
    script = [("put", "a"), ("put", "a"), ("put", "b"), ("delete", "a")]
    api, listener = ScriptedApi([("bookmark",), *script]), Listener()
    reflector = reflect(api, listener)
    assert changes(listener) == ["added a", "changed a", "added b", "deleted a"]
    assert reflector.stats.lists == 1


def test_only_differences_are_reported_after_a_gap():
    script = [
        ("put", "a"), ("put", "b"), ("put", "c"), ("put", "d"), *[("deliver",)] * 4,
        ("put", "a"), ("delete", "b"), ("replace", "c"), ("put", "e"), ("error", "410"),
    ]  # fmt: skip
    api, listener = ScriptedApi([("bookmark",), *script]), Listener()
    reflector = reflect(api, listener)
    assert changes(listener)[4:] == ["deleted b", "changed a", "deleted c", "added c", "added e"]
    assert (reflector.stats.lists, reflector.stats.gaps) == (2, 1)


def test_broken_stream_continues_at_its_version():
    twice = [("put", "a"), ("put", "a"), ("deliver",), ("deliver",)]
    api, listener = ScriptedApi([("bookmark",), *twice, ("put", "b"), ("break",)]), Listener()
    reflector = reflect(api, listener)
    assert changes(listener) == ["added a", "changed a", "added b"]
    assert (reflector.stats.lists, reflector.stats.cuts) == (1, 1)


def test_bookmark_avoids_a_new_list_after_compaction():
    """Nothing in the collection changed for long, and the server has compacted its history."""
    steps = [("put", "a"), ("deliver",), ("elsewhere",), ("bookmark",), ("compact",), ("end",)]
    with_bookmark = reflect(ScriptedApi([("end",), *steps]), Listener())
    without = reflect(ScriptedApi([("end",), *(step for step in steps if step != ("bookmark",))]), Listener())
    assert (with_bookmark.stats.lists, with_bookmark.stats.gaps) == (1, 0)
    assert (without.stats.lists, without.stats.gaps) == (2, 1)


def test_silent_stream_with_an_unknown_version_leads_to_a_new_list():
    """A server restored from an older backup waits for that version and sends nothing."""
    api, listener = ScriptedApi([("silence",), ("bookmark",), ("silence",)]), Listener()
    reflector = reflect(api, listener)
    assert reflector.stats.lists == 2  # one after the first silence; the second stream had received an event


def test_periodic_list_reports_no_known_object_again():
    api, listener = ScriptedApi([("bookmark",), ("put", "a"), ("deliver",), ("due",), ("bookmark",)]), Listener()
    reflector = reflect(api, listener)
    assert changes(listener) == ["added a"]
    assert reflector.stats.lists == 2


def test_kind_that_is_not_installed_is_empty_and_polled_rarely():
    api = ScriptedApi([])
    api.refusals.extend([ApiRefused(404)] * 3)
    reflector = reflect(api, Listener())
    assert reflector.synced.is_set()
    assert reflector.items == {}
    assert not reflector.is_missing  # installed by the end
    assert min(api.pauses_s) >= 30.0


def test_objects_of_an_uninstalled_kind_are_deleted_until_it_is_back():
    api, received = (
        ScriptedApi([("bookmark",), ("put", "a"), ("deliver",), *[("refuse", "404")] * 8, ("end",)]),
        list[str](),
    )
    reflect(api, lambda change, item, before: received.append(change))
    assert received == ["added", "deleted", "added"]


def test_objects_are_kept_when_a_kind_is_missing_for_a_moment():
    """For example a server that has just started and does not know all installed kinds yet."""
    api, listener = (
        ScriptedApi([("bookmark",), ("put", "a"), ("deliver",), *[("refuse", "404")] * 5, ("end",)]),
        Listener(),
    )
    reflect(api, listener)
    assert changes(listener) == ["added a"]


def test_missing_permission_is_logged_once_with_the_needed_verbs(caplog: pytest.LogCaptureFixture):
    api = ScriptedApi([("bookmark",)])
    message = 'things is forbidden: User "gpusquad" cannot list resource "things" in API group "" at the cluster scope'
    api.refusals.extend([ApiRefused(403, "Forbidden", message)] * 12)
    with caplog.at_level(logging.INFO):
        reflector = reflect(api, Listener())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"gpusquad may not read /things: {message}; its role needs the verbs list and watch for it"]
    assert reflector.stats.refusals == 12
    assert "can be read again" in caplog.text


def test_retry_delay_grows_to_a_maximum():
    api = ScriptedApi([])
    api.refusals.extend([ApiUnreachable("away")] * 40)
    reflect(api, Listener())
    assert api.pauses_s[0] <= 0.2
    assert max(api.pauses_s[:3]) < min(api.pauses_s[8:])
    assert max(api.pauses_s) <= 20.0


def test_streams_that_end_at_once_are_retried_with_delays():
    api = ScriptedApi([("end",)] * 20)
    reflect(api, Listener())
    assert sum(api.pauses_s) > 100.0


def test_retry_after_of_a_busy_server_is_respected():
    api = ScriptedApi([])
    api.refusals.append(ApiRefused(429, "TooManyRequests", "later", retry_after_s=17.0))
    reflect(api, Listener())
    assert api.pauses_s[0] >= 17.0


def test_watch_continues_when_the_periodic_list_fails():
    """The periodic list fails, but the stream still works."""
    script = [("bookmark",), ("due",), ("refuse", "503"), ("put", "a"), ("deliver",)]
    api = ScriptedApi([script[0], script[2], script[1], *script[3:]])
    listener = Listener()
    reflector = reflect(api, listener)
    assert changes(listener) == ["added a"]
    assert (reflector.stats.lists, reflector.stats.refusals) == (1, 1)


def test_objects_are_shrunk_before_they_are_reported():
    def drop(item: Object) -> Object:
        item["metadata"]["dropped"] = "yes"
        return item

    api, received = ScriptedApi([("put", "a"), ("end",), ("put", "b")]), list[Object]()
    reflect(api, lambda change, item, before: received.append(item), shrink=drop)
    assert [item["metadata"].get("dropped") for item in received] == ["yes", "yes"]
    assert shrink_other({"metadata": {"name": "a", "managedFields": [1]}}) == {"metadata": {"name": "a"}}


@pytest.mark.parametrize("error", [KeyError("oops"), TimeoutError(), ApiUnreachable("its own")])
@pytest.mark.parametrize("script", [[("put", "a")], [("end",), ("put", "a")]])
def test_failing_listener_ends_the_reflector(error: Exception, script: list[Step]):
    """To continue, reflector and listener would have different objects."""

    def fail(*_: object) -> None:
        raise error

    with pytest.raises((KeyError, RuntimeError)):
        reflect(ScriptedApi(script), fail)
