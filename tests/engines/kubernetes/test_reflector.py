"""Whatever happens between the server and us, we end up knowing the truth, and every change is heard once."""

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
Heard = tuple[str, Object, Object | None]


class Finished(BaseException):
    """The script has been played and everything delivered."""


class ScriptedApi:
    """A collection that changes, and a connection that fails, as a script says. No time passes."""

    def __init__(self, script: Iterable[Step]) -> None:
        self.script = deque(script)
        self.truth: dict[str, Object] = {}
        self.log: list[tuple[int, str, Object]] = []
        self.version = 1
        self.floor = 0
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
        items = [copy.deepcopy(item) for item in self.truth.values()]
        return ObjectList([shrink(item) if shrink else item for item in items], str(self.version))

    async def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Object, None]:
        self._refuse()
        if int(version) < self.floor:
            raise ApiRefused(410, "Expired", "too old")
        place = sum(1 for number, _, _ in self.log if number <= int(version))
        while self.script:
            step = self.script.popleft()
            if step[0] == "deliver" and place < len(self.log):
                place += 1
                yield self._event(place)
            elif step[0] == "again" and place:
                yield self._event(place)
            elif step[0] == "bookmark":
                everything = place == len(self.log)
                reached = self.version if everything else self.log[place - 1][0] if place else int(version)
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
        for number in range(place + 1, len(self.log) + 1):
            yield self._event(number)
        raise Finished

    def _event(self, place: int) -> Object:
        _, kind, item = self.log[place - 1]
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
                self.floor = self.version
            case ("elsewhere",):
                self.version += 1
            case ("refuse", status):
                self.refusals.append(
                    ApiRefused(int(status), "Because", "no") if int(status) else ApiUnreachable("away")
                )

    def _put(self, name: str) -> None:
        self.version += 1
        before = self.truth.get(name)
        uid = before["metadata"]["uid"] if before else f"uid-{self.version}"
        metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.version)}
        self.truth[name] = {"metadata": metadata}
        self.log.append((self.version, "MODIFIED" if before else "ADDED", self.truth[name]))

    def _delete(self, name: str) -> None:
        before = self.truth.pop(name, None)
        if before is not None:
            self.version += 1
            last = {"metadata": {**before["metadata"], "resourceVersion": str(self.version)}}
            self.log.append((self.version, "DELETED", last))


class Listener:
    """Believes only what it hears, and complains if that makes no sense."""

    def __init__(self) -> None:
        self.known: dict[str, Object] = {}
        self.heard: list[Heard] = []
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
        self.heard.append((change, item, before))


def reflect(api: ScriptedApi, on_change: Callable[..., None], **more: Any) -> Reflector:
    """Until the script is over."""

    async def run() -> Reflector:
        made = Reflector(
            cast(AsyncKubeApi, api), "/things", on_change=on_change, clock=api.clock, sleep=api.sleep, **more
        )
        with contextlib.suppress(Finished):
            await made.run()
        return made

    return asyncio.run(run())


def changes(listener: Listener) -> list[str]:
    return [f"{change} {item['metadata']['name']}" for change, item, _ in listener.heard]


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
def test_any_interleaving_ends_with_the_truth_and_a_story_that_makes_sense(script: list[Step]):
    api, listener = ScriptedApi(script), Listener()
    made = reflect(api, listener)
    truth = {key_of(item): item for item in api.truth.values()}
    assert made.items == truth
    assert listener.known == truth
    assert made.stats.changes == len(listener.heard)


def test_the_plain_story():
    script = [("put", "a"), ("put", "a"), ("put", "b"), ("delete", "a")]
    api, listener = ScriptedApi([("bookmark",), *script]), Listener()
    made = reflect(api, listener)
    assert changes(listener) == ["added a", "changed a", "added b", "deleted a"]
    assert made.stats.lists == 1


def test_after_a_gap_only_the_difference_is_told_and_what_is_gone_comes_first():
    script = [
        ("put", "a"), ("put", "b"), ("put", "c"), ("put", "d"), *[("deliver",)] * 4,
        ("put", "a"), ("delete", "b"), ("replace", "c"), ("put", "e"), ("error", "410"),
    ]  # fmt: skip
    api, listener = ScriptedApi([("bookmark",), *script]), Listener()
    made = reflect(api, listener)
    assert changes(listener)[4:] == ["deleted b", "changed a", "deleted c", "added c", "added e"]
    assert (made.stats.lists, made.stats.gaps) == (2, 1)


def test_a_cut_stream_goes_on_where_it_was():
    twice = [("put", "a"), ("put", "a"), ("deliver",), ("deliver",)]
    api, listener = ScriptedApi([("bookmark",), *twice, ("put", "b"), ("break",)]), Listener()
    made = reflect(api, listener)
    assert changes(listener) == ["added a", "changed a", "added b"]
    assert (made.stats.lists, made.stats.cuts) == (1, 1)


def test_a_bookmark_saves_the_list_when_the_server_has_forgotten_the_rest():
    """Nothing of ours changed for long, and the server has thrown away what it knew of those times."""
    quiet = [("put", "a"), ("deliver",), ("elsewhere",), ("bookmark",), ("compact",), ("end",)]
    with_bookmark = reflect(ScriptedApi([("end",), *quiet]), Listener())
    without = reflect(ScriptedApi([("end",), *(step for step in quiet if step != ("bookmark",))]), Listener())
    assert (with_bookmark.stats.lists, with_bookmark.stats.gaps) == (1, 0)
    assert (without.stats.lists, without.stats.gaps) == (2, 1)


def test_a_version_that_the_server_never_had_does_not_make_us_deaf():
    """Its data was restored from an older copy: it waits for that version to come, and says nothing."""
    api, listener = ScriptedApi([("silence",), ("bookmark",), ("silence",)]), Listener()
    made = reflect(api, listener)
    assert made.stats.lists == 2  # for the first silence; the second stream had shown that the server follows


def test_it_lists_again_from_time_to_time_and_that_tells_nothing_new():
    api, listener = ScriptedApi([("bookmark",), ("put", "a"), ("deliver",), ("due",), ("bookmark",)]), Listener()
    made = reflect(api, listener)
    assert changes(listener) == ["added a"]
    assert made.stats.lists == 2


def test_a_kind_that_is_not_installed_is_empty_and_asked_for_rarely():
    api = ScriptedApi([])
    api.refusals.extend([ApiRefused(404)] * 3)
    made = reflect(api, Listener())
    assert made.synced.is_set()
    assert made.items == {}
    assert not made.is_missing  # by the end it had been installed
    assert min(api.pauses_s) >= 30.0


def test_a_kind_that_is_taken_away_has_no_objects_until_it_is_back():
    api, heard = (
        ScriptedApi([("bookmark",), ("put", "a"), ("deliver",), *[("refuse", "404")] * 8, ("end",)]),
        list[str](),
    )
    reflect(api, lambda change, item, before: heard.append(change))
    assert heard == ["added", "deleted", "added"]


def test_a_server_that_does_not_know_a_kind_for_a_moment_takes_nothing_away():
    """As one that has just started and has not yet read which kinds are installed."""
    api, listener = (
        ScriptedApi([("bookmark",), ("put", "a"), ("deliver",), *[("refuse", "404")] * 5, ("end",)]),
        Listener(),
    )
    reflect(api, listener)
    assert changes(listener) == ["added a"]


def test_a_missing_right_is_told_once_with_what_is_missing(caplog: pytest.LogCaptureFixture):
    api = ScriptedApi([("bookmark",)])
    message = 'things is forbidden: User "gpusquad" cannot list resource "things" in API group "" at the cluster scope'
    api.refusals.extend([ApiRefused(403, "Forbidden", message)] * 12)
    with caplog.at_level(logging.INFO):
        made = reflect(api, Listener())
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [f"gpusquad may not read /things: {message}; its role needs the verbs list and watch for it"]
    assert made.stats.refusals == 12
    assert "can be read again" in caplog.text


def test_pauses_grow_and_have_an_end():
    api = ScriptedApi([])
    api.refusals.extend([ApiUnreachable("away")] * 40)
    reflect(api, Listener())
    assert api.pauses_s[0] <= 0.2
    assert max(api.pauses_s[:3]) < min(api.pauses_s[8:])
    assert max(api.pauses_s) <= 20.0


def test_a_stream_that_ends_at_once_each_time_does_not_keep_us_busy():
    api = ScriptedApi([("end",)] * 20)
    reflect(api, Listener())
    assert sum(api.pauses_s) > 100.0


def test_a_busy_server_is_given_the_time_it_asks_for():
    api = ScriptedApi([])
    api.refusals.append(ApiRefused(429, "TooManyRequests", "later", retry_after_s=17.0))
    reflect(api, Listener())
    assert api.pauses_s[0] >= 17.0


def test_a_list_that_fails_does_not_keep_us_from_watching():
    """The safety net is torn, but the stream still works."""
    script = [("bookmark",), ("due",), ("refuse", "503"), ("put", "a"), ("deliver",)]
    api = ScriptedApi([script[0], script[2], script[1], *script[3:]])
    listener = Listener()
    made = reflect(api, listener)
    assert changes(listener) == ["added a"]
    assert (made.stats.lists, made.stats.refusals) == (1, 1)


def test_what_nobody_needs_is_dropped_before_anybody_sees_it():
    def drop(item: Object) -> Object:
        item["metadata"]["dropped"] = "yes"
        return item

    api, heard = ScriptedApi([("put", "a"), ("end",), ("put", "b")]), list[Object]()
    reflect(api, lambda change, item, before: heard.append(item), shrink=drop)
    assert [item["metadata"].get("dropped") for item in heard] == ["yes", "yes"]
    assert shrink_other({"metadata": {"name": "a", "managedFields": [1]}}) == {"metadata": {"name": "a"}}


@pytest.mark.parametrize("error", [KeyError("oops"), TimeoutError(), ApiUnreachable("its own")])
@pytest.mark.parametrize("script", [[("put", "a")], [("end",), ("put", "a")]])
def test_a_listener_that_fails_ends_it(error: Exception, script: list[Step]):
    """To go on would be to believe something else than the listener does."""

    def fail(*_: object) -> None:
        raise error

    with pytest.raises((KeyError, RuntimeError)):
        reflect(ScriptedApi(script), fail)
