"""Tests of the reflector against a real API server, which restarts in one of them."""

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
WAIT_S = 60.0


class ChangeRecorder:
    """Records the changes that a reflector reports, and waits for conditions on them."""

    def __init__(self) -> None:
        self.changes: list[str] = []
        self._changed = asyncio.Event()

    def __call__(self, change: str, item: Object, before: Object | None) -> None:
        if not item["metadata"]["name"].startswith("kube-"):  # created by the controller-manager in every namespace
            self.changes.append(f"{change} {item['metadata']['name']}")
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class CountingApi(AsyncKubeApi):
    """Counts lists in ``listed`` and sets ``failed`` at the first failure."""

    def __init__(self, access: KubeAccess, page: int) -> None:
        super().__init__(access, page=page)
        self.listed = asyncio.Semaphore(0)
        self.failed = asyncio.Event()

    async def list(self, path: str, *, shrink: Shrink | None = None, **query: str) -> ObjectList:
        listing = await super().list(path, shrink=shrink, **query)
        self.listed.release()
        return listing

    async def pause(self, seconds: float) -> None:
        """Sleep function of the reflector, which sleeps only after a failure."""
        self.failed.set()
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def run_reflector(
    plane: ControlPlane, path: str, recorder: ChangeRecorder, user: str = "admin", relist_s: float = 600.0
) -> AsyncIterator[tuple[CountingApi, Reflector]]:
    async with CountingApi(load_access(plane.kubeconfig(user)), page=2) as api:
        reflector = Reflector(api, path, on_change=recorder, shrink=shrink_other, sleep=api.pause, relist_s=relist_s)
        task = asyncio.create_task(reflector.run())
        try:
            yield api, reflector
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.wait([task])


def config_map(name: str, value: str = "") -> Object:
    return {"metadata": {"name": name}, "data": {"value": value}}


async def list_objects(api: AsyncKubeApi, path: str) -> dict[str, Object]:
    listed = await api.list(path, shrink=shrink_other)
    return {key_of(item): item for item in listed.items}


async def first_event(api: AsyncKubeApi, version: str) -> tuple[str, int]:
    async with contextlib.aclosing(api.watch(MAPS, version)) as events:
        async for event in events:
            return event["type"], event["object"].get("code", 0)
    return "end", 0


def test_reflector_reports_changes_and_equals_a_new_list(plane: ControlPlane):
    async def run() -> None:
        recorder = ChangeRecorder()
        async with run_reflector(plane, MAPS, recorder) as (api, reflector):
            await asyncio.wait_for(reflector.synced.wait(), WAIT_S)
            for number in range(5):
                await api.post(MAPS, config_map(f"m{number}"))
            await api.put(f"{MAPS}/m0", config_map("m0", "new"))
            for number in range(5):
                await api.delete(f"{MAPS}/m{number}")
            await api.post(MAPS, config_map("last"))
            await recorder.until(lambda: "added last" in recorder.changes)
            assert reflector.items == await list_objects(api, MAPS)
            await api.delete(f"{MAPS}/last")
            await recorder.until(lambda: "deleted last" in recorder.changes)
            assert (reflector.stats.lists, reflector.stats.gaps) == (1, 0)
        added, deleted = ([f"{change} m{number}" for number in range(5)] for change in ("added", "deleted"))
        assert recorder.changes == [*added, "changed m0", *deleted, "added last", "deleted last"]

    asyncio.run(run())


def test_relist_reports_no_change_twice(plane: ControlPlane):
    async def run() -> None:
        recorder = ChangeRecorder()
        async with run_reflector(plane, MAPS, recorder, relist_s=0.2) as (api, _):
            await api.post(MAPS, config_map("once"))
            await recorder.until(lambda: "added once" in recorder.changes)
            for _ in range(4):
                await asyncio.wait_for(api.listed.acquire(), WAIT_S)
            await api.delete(f"{MAPS}/once")
            await recorder.until(lambda: "deleted once" in recorder.changes)
        assert recorder.changes == ["added once", "deleted once"]

    asyncio.run(run())


def test_kind_that_is_installed_later_is_found(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch):
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
        recorder = ChangeRecorder()
        async with run_reflector(plane, path, recorder) as (api, reflector):
            await asyncio.wait_for(reflector.synced.wait(), WAIT_S)
            assert (reflector.is_missing, reflector.items) == (True, {})
            await api.post(definitions, crd)
            plane.admin.until(definitions, lambda found: any(_is_established(item) for item in found))
            await api.post(path, thing)
            await recorder.until(lambda: recorder.changes == ["added one"])
            assert not reflector.is_missing
            await api.delete(f"{definitions}/things.test.gpusquad.io")
            await recorder.until(lambda: recorder.changes == ["added one", "deleted one"])

    asyncio.run(run())


def _is_established(crd: Object) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()  # null at first
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


def test_reflector_syncs_after_the_right_is_granted(plane: ControlPlane, caplog: pytest.LogCaptureFixture):
    async def run() -> None:
        async with run_reflector(plane, "/api/v1/nodes", ChangeRecorder(), RESTRICTED) as (api, reflector):
            await asyncio.wait_for(api.failed.wait(), WAIT_S)
            assert not reflector.synced.is_set()
            rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]
            await asyncio.to_thread(plane.allow, rules)
            await asyncio.wait_for(reflector.synced.wait(), WAIT_S)
            assert len(reflector.items) == 4

    plane.allow([])
    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    warnings = [record.getMessage() for record in caplog.records if "may not read" in record.getMessage()]
    assert len(warnings) == 1
    assert 'cannot list resource "nodes"' in warnings[0]


def test_reflector_continues_after_the_api_server_restarts():
    """Changes after the restart are reported, and known objects are not reported again."""

    async def run(plane: ControlPlane) -> None:
        recorder = ChangeRecorder()
        old_version = plane.admin.get(MAPS)["metadata"]["resourceVersion"]
        async with run_reflector(plane, MAPS, recorder) as (api, reflector):
            await api.post(MAPS, config_map("before"))
            await recorder.until(lambda: "added before" in recorder.changes)
            daemon = plane.daemons["kube-apiserver"]
            await asyncio.to_thread(daemon.stop)
            await asyncio.wait_for(api.failed.wait(), WAIT_S)
            await asyncio.to_thread(daemon.start)
            await asyncio.to_thread(plane.wait_until_ready)
            await asyncio.to_thread(plane.admin.post, MAPS, config_map("after"))
            await recorder.until(lambda: "added after" in recorder.changes)
            assert reflector.items == await list_objects(api, MAPS)
            assert await first_event(api, old_version) == ("ERROR", 410)
        assert recorder.changes == ["added before", "added after"]

    with ControlPlane(Settings()) as plane:
        asyncio.run(run(plane))
