"""What a reflector knows of a real API server is the truth, also when that server goes away and comes back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import pytest

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi, ObjectList, Shrink
from gpusquad.engines.kubernetes.client.reflector import Reflector
from gpusquad.engines.kubernetes.pruning import shrink_other
from gpusquad.kube.access import KubeAccess, load_access
from gpusquad.kube.objects import Object, key_of
from tests.kube.plane import RESTRICTED, ControlPlane, Settings

MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE_S = 60.0


class Story:
    """What was heard, and a way to wait until it holds something."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self._more = asyncio.Event()

    def __call__(self, change: str, item: Object, before: Object | None) -> None:
        if not item["metadata"]["name"].startswith("kube-"):  # what the controller-manager puts everywhere
            self.heard.append(f"{change} {item['metadata']['name']}")
        self._more.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._more.clear()
                await self._more.wait()


class CountingApi(AsyncKubeApi):
    """Says when something has been listed so often, and when there was trouble for the first time."""

    def __init__(self, access: KubeAccess, page: int) -> None:
        super().__init__(access, page=page)
        self.listed = asyncio.Semaphore(0)
        self.troubled = asyncio.Event()

    async def list(self, path: str, *, shrink: Shrink | None = None, **query: str) -> ObjectList:
        listing = await super().list(path, shrink=shrink, **query)
        self.listed.release()
        return listing

    async def pause(self, seconds: float) -> None:
        """How the reflector sleeps, which it does after trouble only."""
        self.troubled.set()
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def reflecting(
    plane: ControlPlane, path: str, story: Story, user: str = "admin", relist_s: float = 600.0
) -> AsyncIterator[tuple[CountingApi, Reflector]]:
    async with CountingApi(load_access(plane.kubeconfig(user)), page=2) as api:
        made = Reflector(api, path, on_change=story, shrink=shrink_other, sleep=api.pause, relist_s=relist_s)
        task = asyncio.create_task(made.run())
        try:
            yield api, made
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])


def config_map(name: str, value: str = "") -> Object:
    return {"metadata": {"name": name}, "data": {"value": value}}


async def truth(api: AsyncKubeApi, path: str) -> dict[str, Object]:
    listed = await api.list(path, shrink=shrink_other)
    return {key_of(item): item for item in listed.items}


async def first_event(api: AsyncKubeApi, version: str) -> tuple[str, int]:
    async with contextlib.aclosing(api.watch(MAPS, version)) as events:
        async for event in events:
            return event["type"], event["object"].get("code", 0)
    return "end", 0


def test_it_follows_and_does_not_differ_from_a_new_list(plane: ControlPlane):
    async def run() -> None:
        story = Story()
        async with reflecting(plane, MAPS, story) as (api, made):
            await asyncio.wait_for(made.synced.wait(), PATIENCE_S)
            for number in range(5):
                await api.post(MAPS, config_map(f"m{number}"))
            await api.put(f"{MAPS}/m0", config_map("m0", "new"))
            for number in range(5):
                await api.delete(f"{MAPS}/m{number}")
            await api.post(MAPS, config_map("last"))
            await story.until(lambda: "added last" in story.heard)
            assert made.items == await truth(api, MAPS)
            await api.delete(f"{MAPS}/last")
            await story.until(lambda: "deleted last" in story.heard)
            assert (made.stats.lists, made.stats.gaps) == (1, 0)
        added, deleted = ([f"{change} m{number}" for number in range(5)] for change in ("added", "deleted"))
        assert story.heard == [*added, "changed m0", *deleted, "added last", "deleted last"]

    asyncio.run(run())


def test_listing_again_tells_nothing_twice(plane: ControlPlane):
    async def run() -> None:
        story = Story()
        async with reflecting(plane, MAPS, story, relist_s=0.2) as (api, _):
            await api.post(MAPS, config_map("once"))
            await story.until(lambda: "added once" in story.heard)
            for _ in range(4):
                await asyncio.wait_for(api.listed.acquire(), PATIENCE_S)
            await api.delete(f"{MAPS}/once")
            await story.until(lambda: "deleted once" in story.heard)
        assert story.heard == ["added once", "deleted once"]

    asyncio.run(run())


def test_a_kind_that_is_installed_later_is_found(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("gpusquad.engines.kubernetes.client.reflector._MISSING_PAUSE_S", 0.2)
    kind = {"plural": "things", "singular": "thing", "kind": "Thing"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.gpusquad.io"},
        "spec": {
            "group": "test.gpusquad.io",
            "scope": "Namespaced",
            "names": kind,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    path = "/apis/test.gpusquad.io/v1/namespaces/default/things"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    thing = {"apiVersion": "test.gpusquad.io/v1", "kind": "Thing", "metadata": {"name": "one"}}

    async def run() -> None:
        story = Story()
        async with reflecting(plane, path, story) as (api, made):
            await asyncio.wait_for(made.synced.wait(), PATIENCE_S)
            assert (made.is_missing, made.items) == (True, {})
            await api.post(definitions, crd)
            plane.admin.until(definitions, lambda found: any(_is_established(item) for item in found))
            await api.post(path, thing)
            await story.until(lambda: story.heard == ["added one"])
            assert not made.is_missing
            await api.delete(f"{definitions}/things.test.gpusquad.io")
            await story.until(lambda: story.heard == ["added one", "deleted one"])

    asyncio.run(run())


def _is_established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()  # null for a moment
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def test_a_right_that_is_given_later_is_used(plane: ControlPlane, caplog: pytest.LogCaptureFixture):
    async def run() -> None:
        async with reflecting(plane, "/api/v1/nodes", Story(), RESTRICTED) as (api, made):
            await asyncio.wait_for(api.troubled.wait(), PATIENCE_S)
            assert not made.synced.is_set()
            rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
            await asyncio.to_thread(plane.allow, rules)
            await asyncio.wait_for(made.synced.wait(), PATIENCE_S)
            assert len(made.items) == 4

    plane.allow([])
    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    told = [record.getMessage() for record in caplog.records if "may not read" in record.getMessage()]
    assert len(told) == 1
    assert 'cannot list resource "nodes"' in told[0]


def test_a_server_that_is_killed_and_comes_back_costs_nothing():
    """Whatever is written after it is back arrives, and what was known before is not told again."""

    async def run(plane: ControlPlane) -> None:
        story = Story()
        long_ago = plane.admin.get(MAPS)["metadata"]["resourceVersion"]
        async with reflecting(plane, MAPS, story) as (api, made):
            await api.post(MAPS, config_map("before"))
            await story.until(lambda: "added before" in story.heard)
            daemon = plane.daemons["kube-apiserver"]
            await asyncio.to_thread(daemon.stop)
            await asyncio.wait_for(api.troubled.wait(), PATIENCE_S)
            await asyncio.to_thread(daemon.start)
            await asyncio.to_thread(plane.wait_until_ready)
            await asyncio.to_thread(plane.admin.post, MAPS, config_map("after"))
            await story.until(lambda: "added after" in story.heard)
            assert made.items == await truth(api, MAPS)
            assert await first_event(api, long_ago) == ("ERROR", 410)
        assert story.heard == ["added before", "added after"]

    with ControlPlane(Settings()) as plane:
        asyncio.run(run(plane))
