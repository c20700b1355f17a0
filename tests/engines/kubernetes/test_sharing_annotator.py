"""Tests of writing weight and deadline to running pods, with user edits and failed writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gpusquad.engines.kubernetes.sharing_annotator import SharingAnnotator
from gpusquad.kube.names import DEADLINE, PRIORITY, WEIGHT
from gpusquad.kube.objects import Object, name_of, uid_of
from gpusquad.model.job import Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.kubernetes.parse import builders

DEFAULT, HEAVY = SharingParams(), SharingParams(weight=2.0)
Written = list[tuple[str, dict[str, str | None]]]


class AnnotatedPods:
    """Pods with an annotator; ``see`` delivers the writes, as a lagging watch does."""

    def __init__(self, *pods: Object) -> None:
        self.pods = {uid_of(pod): pod for pod in pods}
        self.sharing_params = DEFAULT
        self.written: Written = []
        self.broken: dict[str, str] = {}
        self.stuck: dict[str, asyncio.Event] = {}
        self.annotator = SharingAnnotator(self.find, self.write)

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
        await self.annotator.update(list(self.pods))
        return self.written


def weights(written: Written) -> list[tuple[str, str | None]]:
    return [(name, annotations[WEIGHT]) for name, annotations in written]


def run(work: Any) -> None:
    asyncio.run(asyncio.wait_for(work, 10))


def test_only_pods_with_other_values_are_written() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a"), builders.pod("b", annotations={WEIGHT: "2.0"}))
        assert weights(await pods.change(HEAVY)) == [("a", "2.0")]
        pods.see()
        assert await pods.change(HEAVY) == []

    run(work())


def test_user_edits_are_reverted() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a"))
        await pods.change(HEAVY)
        pods.see()
        pods.pods["uid-of-a"]["metadata"]["annotations"] |= {WEIGHT: "1000000", DEADLINE: "1999-12-31"}
        await pods.annotator.check_all(list(pods.pods))
        assert pods.written == [("a", {WEIGHT: "2.0", DEADLINE: None})]

    run(work())


def test_priority_above_that_of_the_job_is_lowered() -> None:
    async def work() -> None:
        pods = AnnotatedPods(
            builders.pod("a", annotations={WEIGHT: "1.0", PRIORITY: "urgent"}),
            builders.pod("b", annotations={WEIGHT: "1.0", PRIORITY: "high"}),
            builders.pod("c", annotations={WEIGHT: "1.0", PRIORITY: "low"}),
            builders.pod("d", annotations={WEIGHT: "1.0", PRIORITY: "no such word"}),
            builders.pod("e", annotations={WEIGHT: "1.0"}),
        )
        written = await pods.change(SharingParams(priority=1))
        assert [(name, annotations[PRIORITY]) for name, annotations in written] == [("a", "high")]
        pods.see()
        assert await pods.change(SharingParams(priority=1)) == []
        written = await pods.change(DEFAULT)
        assert [(name, annotations[PRIORITY]) for name, annotations in written] == [("a", "normal"), ("b", "normal")]

    run(work())


def test_priority_that_a_user_raises_later_is_lowered_again() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a"))
        for _ in range(2):
            await pods.change(DEFAULT)
            pods.see()
            pods.pods["uid-of-a"]["metadata"]["annotations"] |= {PRIORITY: "urgent"}
            await pods.annotator.check_all(list(pods.pods))
            assert [annotations[PRIORITY] for _, annotations in pods.written] == ["normal"]
            pods.see()

    run(work())


def test_default_weight_is_written_too() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a", annotations={WEIGHT: "1000000"}), builders.pod("b"))
        assert weights(await pods.change(DEFAULT)) == [("a", "1.0"), ("b", "1.0")]

    run(work())


def test_later_change_is_written_although_the_watch_lags() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a", annotations={WEIGHT: "1.0"}))
        assert weights(await pods.change(HEAVY)) == [("a", "2.0")]
        assert weights(await pods.change(DEFAULT)) == [("a", "1.0")]

    run(work())


def test_later_of_two_concurrent_changes_is_written_last() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a", annotations={WEIGHT: "1.0"}))
        first = asyncio.create_task(pods.change(HEAVY))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        pods.sharing_params = SharingParams(weight=3.0)
        await pods.annotator.update(list(pods.pods))
        await first
        assert weights(pods.written) == [("a", "2.0"), ("a", "3.0")]

    run(work())


def test_deadline_is_written_and_removed() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a", annotations={WEIGHT: "1.0"}))
        with_deadline = SharingParams(slo=Slo(deadline_us=1_000_000))
        assert await pods.change(with_deadline) == [("a", {WEIGHT: "1.0", DEADLINE: "1970-01-01T00:00:01+00:00"})]
        pods.see()
        assert await pods.change(SharingParams(slo=Slo(latency_us=5))) == [("a", {WEIGHT: "1.0", DEADLINE: None})]

    run(work())


def test_blocked_pod_does_not_delay_others() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("bad"), builders.pod("good"))
        pods.stuck["bad"] = asyncio.Event()
        first = asyncio.create_task(pods.change(HEAVY))
        while not pods.written:
            await asyncio.sleep(0)
        assert weights(pods.written) == [("good", "2.0")]
        pods.see()
        pods.sharing_params = SharingParams(weight=3.0)
        await pods.annotator.update(list(pods.pods))
        assert weights(pods.written) == [("good", "3.0")]
        pods.stuck["bad"].set()
        await first
        assert weights(pods.written)[-1] == ("bad", "3.0"), "the current value"

    run(work())


def test_refused_write_is_logged_once_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a"))
        pods.broken["a"] = "you may not"
        await pods.change(HEAVY)
        await pods.annotator.check_all(list(pods.pods))
        assert [record.getMessage() for record in caplog.records] == [
            "cannot write the sharing annotations of pod team/a: you may not"
        ]
        pods.broken.clear()
        await pods.annotator.check_all(list(pods.pods))
        assert weights(pods.written) == [("a", "2.0")]

    run(work())


def test_deleted_pods_are_forgotten() -> None:
    async def work() -> None:
        pods = AnnotatedPods(builders.pod("a"))
        await pods.change(HEAVY)
        del pods.pods["uid-of-a"]
        await pods.annotator.update(["uid-of-a"])
        await pods.annotator.check_all([])
        assert not pods.annotator._written

    run(work())
