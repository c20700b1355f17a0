"""Tests of looking up the owners and groups of pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from gpusquad.engines.kubernetes.client.api import ObjectList
from gpusquad.engines.kubernetes.lookups import Lookups
from gpusquad.engines.kubernetes.parse.lookups import UNKNOWN
from gpusquad.kube.errors import ApiRefused
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.parse import builders
from tests.engines.kubernetes.virtual_time import run_virtually

JOB = ("batch", "Job", "team", "train")


def owner(kind: str, name: str, version: str, parent: Object | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": "team", "uid": f"uid-of-{name}", "resourceVersion": "1"}
    if parent is not None:
        metadata["ownerReferences"] = [builders.reference(parent)]
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


SET = owner("JobSet", "all", "jobset.x-k8s.io/v1alpha2")
TRAIN = owner("Job", "train", "batch/v1", SET)


class FakeApi:
    """Lists its objects, which never change."""

    def __init__(self, *items: Object, missing: tuple[str, ...] = (), slow: bool = False) -> None:
        self._items = items
        self._missing = missing
        self._slow = slow
        self.deleted: list[tuple[str, Object]] = []

    async def get(self, path: str, **query: str) -> Object:
        if any(f"/{version}/" in path for version in self._missing):
            raise ApiRefused(404, "NotFound", "no such kind")
        return next((item for item in self._items if path.endswith(f"/{item['metadata']['name']}")), {})

    async def list(self, path: str, **query: Any) -> ObjectList:
        await asyncio.sleep(1000 if self._slow else 1)
        kind = path.rpartition("/")[2]
        return ObjectList([item for item in self._items if f"{item['kind'].lower()}s" == kind], "1")

    async def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Object, None]:
        await asyncio.sleep(10**6)
        yield {}

    async def delete(self, path: str, options: Object) -> Object:
        self.deleted.append((path, options))
        return {}


def run_with_lookups(api: FakeApi, script: Callable[[Lookups, list[set[str]]], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        changes: list[set[str]] = []
        lookups = Lookups(api, changes.append)  # type: ignore[arg-type]
        lookups.reading_for = "pod1"
        try:
            await script(lookups, changes)
        finally:
            await lookups.close()

    run_virtually(run())


def test_object_is_unknown_until_its_kind_is_listed_and_reported() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        assert lookups.find(*JOB) is UNKNOWN
        await lookups.synced(60)
        assert lookups.find(*JOB) == TRAIN
        assert lookups.find("batch", "Job", "team", "another") is None
        assert {"pod1"} in changes

    run_with_lookups(FakeApi(TRAIN), script)


def test_unsupported_kind_has_no_objects() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        assert lookups.find("example.com", "Thing", "team", "x") is None
        await lookups.synced(1)

    run_with_lookups(FakeApi(), script)


def test_synced_waits_for_lookups_that_follow_from_found_objects() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        def find_owner(uids: set[str]) -> None:
            lookups.find("jobset.x-k8s.io", "JobSet", "team", "all")

        lookups._changed = find_owner
        lookups.find(*JOB)
        await lookups.synced(60)
        assert lookups.find("jobset.x-k8s.io", "JobSet", "team", "all") == SET

    run_with_lookups(FakeApi(TRAIN, SET), script)


def test_synced_returns_after_its_timeout() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        lookups.find(*JOB)
        await lookups.synced(5)
        assert lookups.find(*JOB) is UNKNOWN

    run_with_lookups(FakeApi(TRAIN, slow=True), script)


def test_best_installed_version_is_watched() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        lookups.find("scheduling.k8s.io", "PodGroup", "team", "g")
        await lookups.synced(60)
        reflector = lookups._kinds["scheduling.k8s.io", "PodGroup"]
        assert reflector is not None
        assert reflector.path == "/apis/scheduling.k8s.io/v1alpha3/podgroups"

    run_with_lookups(FakeApi(missing=("v1beta1",)), script)


def test_top_owner_is_the_topmost_known_owner() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        pod = builders.pod(owner=TRAIN)
        assert lookups.top_owner(builders.pod()) is None
        assert (lookups.top_owner(pod) or {})["name"] == "train"
        lookups.find(*JOB)
        await lookups.synced(60)
        assert (lookups.top_owner(pod) or {})["name"] == "all"

    run_with_lookups(FakeApi(TRAIN, SET), script)


def test_forgotten_pod_gets_no_changes() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        lookups.find(*JOB)
        lookups.forget("pod1")
        lookups.forget("never seen")
        await lookups.synced(60)
        assert changes == []

    run_with_lookups(FakeApi(TRAIN), script)


def test_owner_is_deleted_with_its_pods_by_uid() -> None:
    async def script(lookups: Lookups, changes: list[set[str]]) -> None:
        assert await lookups.get("batch/v1", "Job", "team", "train") == TRAIN
        await lookups.delete("batch/v1", "Job", TRAIN)

    api = FakeApi(TRAIN)
    run_with_lookups(api, script)
    ((path, options),) = api.deleted
    assert path == "/apis/batch/v1/namespaces/team/jobs/train"
    assert options["preconditions"] == {"uid": "uid-of-train"}
    assert options["propagationPolicy"] == "Background"
