"""What pods that run are told of what they are worth, whatever they say and whatever becomes of the writing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gpusquad.engines.kubernetes.sharing_annotator import SharingAnnotator
from gpusquad.kube.names import DEADLINE, WEIGHT
from gpusquad.kube.objects import Object, name_of, uid_of
from gpusquad.model.job import Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.kubernetes.parse import making

USUAL, HEAVY = SharingParams(), SharingParams(weight=2.0)
Written = list[tuple[str, dict[str, str | None]]]


class Pods:
    """What is written is seen when the test says so, as with a watch that lags."""

    def __init__(self, *pods: Object) -> None:
        self.pods = {uid_of(pod): pod for pod in pods}
        self.sharing_params = USUAL
        self.written: Written = []
        self.broken: dict[str, str] = {}
        self.stuck: dict[str, asyncio.Event] = {}
        self.worths = SharingAnnotator(self.find, self.write)

    def find(self, uid: str) -> tuple[Object, SharingParams] | None:
        return (self.pods[uid], self.sharing_params) if uid in self.pods else None

    async def write(self, pod: Object, annotations: Mapping[str, str | None]) -> str:
        await asyncio.sleep(0)
        if name_of(pod) in self.stuck:
            await self.stuck[name_of(pod)].wait()
        if name_of(pod) in self.broken:
            return self.broken[name_of(pod)]
        self.written.append((name_of(pod), dict(annotations)))
        return ""

    def see(self) -> None:
        for name, changes in self.written:
            annotations = self.pods[f"uid-of-{name}"]["metadata"]["annotations"]
            annotations.update({key: text for key, text in changes.items() if text is not None})
            for key in annotations.keys() - {key for key, text in annotations.items() if text is not None}:
                annotations.pop(key, None)
        self.written = []

    async def change(self, sharing_params: SharingParams) -> Written:
        self.sharing_params, self.written = sharing_params, []
        await self.worths.update(list(self.pods))
        return self.written


def weights(written: Written) -> list[tuple[str, str | None]]:
    return [(name, annotations[WEIGHT]) for name, annotations in written]


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def test_only_pods_that_say_something_else_are_written_to() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"), making.pod("b", annotations={WEIGHT: "2.0"}))
        assert weights(await pods.change(HEAVY)) == [("a", "2.0")]
        pods.see()
        assert await pods.change(HEAVY) == []

    run(work())


def test_what_a_user_writes_there_is_put_back() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"))
        await pods.change(HEAVY)
        pods.see()
        pods.pods["uid-of-a"]["metadata"]["annotations"] |= {WEIGHT: "1000000", DEADLINE: "1999-12-31"}
        await pods.worths.check_all(list(pods.pods))
        assert pods.written == [("a", {WEIGHT: "2.0", DEADLINE: None})]

    run(work())


def test_the_usual_weight_is_somebodys_word_too() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a", annotations={WEIGHT: "1000000"}), making.pod("b"))
        assert weights(await pods.change(USUAL)) == [("a", "1.0"), ("b", "1.0")]

    run(work())


def test_of_two_changes_the_later_one_holds_though_the_watch_lags() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a", annotations={WEIGHT: "1.0"}))
        assert weights(await pods.change(HEAVY)) == [("a", "2.0")]
        assert weights(await pods.change(USUAL)) == [("a", "1.0")]

    run(work())


def test_of_two_changes_at_once_the_later_one_is_written_last() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a", annotations={WEIGHT: "1.0"}))
        first = asyncio.create_task(pods.change(HEAVY))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pods.sharing_params = SharingParams(weight=3.0)
        await pods.worths.update(list(pods.pods))
        await first
        assert weights(pods.written) == [("a", "2.0"), ("a", "3.0")]

    run(work())


def test_a_deadline_comes_and_goes() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a", annotations={WEIGHT: "1.0"}))
        due = SharingParams(slo=Slo(deadline_us=1_000_000))
        assert await pods.change(due) == [("a", {WEIGHT: "1.0", DEADLINE: "1970-01-01T00:00:01+00:00"})]
        pods.see()
        assert await pods.change(SharingParams(slo=Slo(latency_us=5))) == [("a", {WEIGHT: "1.0", DEADLINE: None})]

    run(work())


def test_a_pod_that_cannot_be_written_to_holds_up_no_other() -> None:
    async def work() -> None:
        pods = Pods(making.pod("bad"), making.pod("good"))
        pods.stuck["bad"] = asyncio.Event()
        first = asyncio.create_task(pods.change(HEAVY))
        while not pods.written:
            await asyncio.sleep(0)
        assert weights(pods.written) == [("good", "2.0")]
        pods.see()
        pods.sharing_params = SharingParams(weight=3.0)
        await pods.worths.update(list(pods.pods))
        assert weights(pods.written) == [("good", "3.0")]
        pods.stuck["bad"].set()
        await first
        assert weights(pods.written)[-1] == ("bad", "3.0"), "what holds by then"

    run(work())


def test_what_was_refused_is_tried_again_and_written_once(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"))
        pods.broken["a"] = "you may not"
        await pods.change(HEAVY)
        await pods.worths.check_all(list(pods.pods))
        assert [record.getMessage() for record in caplog.records] == [
            "cannot write the sharing annotations of pod team/a: you may not"
        ]
        pods.broken.clear()
        await pods.worths.check_all(list(pods.pods))
        assert weights(pods.written) == [("a", "2.0")]

    run(work())


def test_pods_that_are_gone_are_forgotten() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"))
        await pods.change(HEAVY)
        del pods.pods["uid-of-a"]
        await pods.worths.update(["uid-of-a"])
        await pods.worths.check_all([])
        assert not pods.worths._written

    run(work())
