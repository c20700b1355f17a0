"""What pods that run are told when the weight of their tenant, or their deadline, is another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gpusquad.engines.kubernetes.objects import Object, annotations_of, name_of
from gpusquad.engines.kubernetes.standings import Worths
from gpusquad.model.job import Slo
from gpusquad.model.standing import Standing
from gpusquad.model.standing_text import DEADLINE, WEIGHT
from tests.engines.kubernetes.reading import making

HEAVY = Standing(weight=2.0)


class Pods:
    """Those of one job; what is written is not seen at once, as with a watch that lags."""

    def __init__(self, *pods: Object) -> None:
        self.pods = pods
        self.written: list[tuple[str, dict[str, str | None]]] = []
        self.worths = Worths(lambda job: self.pods if job == "j" else (), self.write)

    async def write(self, pod: Object, said: Mapping[str, str | None]) -> None:
        await asyncio.sleep(0)
        self.written.append((name_of(pod), dict(said)))

    async def change(self, *standings: Standing, attempt: int = 0) -> list[tuple[str, dict[str, str | None]]]:
        self.written = []
        await asyncio.gather(*(self.worths.change("j", attempt, standing) for standing in standings))
        return self.written


def test_only_pods_that_say_something_else_are_written_to() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"), making.pod("b", annotations={WEIGHT: "2.0"}))
        assert await pods.change(HEAVY) == [("a", {WEIGHT: "2.0"})]
        assert await pods.change(HEAVY) == []

    asyncio.run(work())


def test_of_two_changes_the_later_one_holds_though_the_watch_lags() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"))
        assert await pods.change(HEAVY, Standing()) == [("a", {WEIGHT: "2.0"}), ("a", {WEIGHT: None})]

    asyncio.run(work())


def test_a_deadline_comes_and_goes() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"))
        due = Standing(slo=Slo(deadline_us=1_000_000))
        assert await pods.change(due) == [("a", {DEADLINE: "1970-01-01T00:00:01+00:00"})]
        assert await pods.change(Standing(slo=Slo(latency_us=5))) == [("a", {DEADLINE: None})]

    asyncio.run(work())


def test_of_a_new_attempt_its_pods_say_what_they_were_told() -> None:
    async def work() -> None:
        pods = Pods(making.pod("a"))
        await pods.change(HEAVY)
        pods.pods = (making.pod("b"),)
        assert annotations_of(pods.pods[0]).get(WEIGHT) is None
        assert await pods.change(HEAVY, attempt=1) == [("b", {WEIGHT: "2.0"})]

    asyncio.run(work())
