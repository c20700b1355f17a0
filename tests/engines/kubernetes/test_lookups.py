"""Objects that groups are read from, as they become known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any

from gpusquad.engines.kubernetes.client.api import ObjectList
from gpusquad.engines.kubernetes.lookups import Lookups
from gpusquad.engines.kubernetes.parse.lookups import UNKNOWN
from gpusquad.kube.errors import ApiRefused
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.parse import making
from tests.engines.kubernetes.virtual_time import run_virtually

JOB = ("batch", "Job", "team", "train")


def owner(kind: str, name: str, version: str, above: Object | None = None) -> Object:
    metadata: Object = {"name": name, "namespace": "team", "uid": f"uid-of-{name}", "resourceVersion": "1"}
    if above is not None:
        metadata["ownerReferences"] = [making.reference(above)]
    return {"apiVersion": version, "kind": kind, "metadata": metadata}


SET = owner("JobSet", "all", "jobset.x-k8s.io/v1alpha2")
TRAIN = owner("Job", "train", "batch/v1", SET)


class FakeApi:
    """Lists what it was given, and nothing ever changes."""

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


def with_lookups(api: FakeApi, play: Callable[[Lookups, list[set[str]]], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        told: list[set[str]] = []
        lookups = Lookups(api, told.append)  # type: ignore[arg-type]
        lookups.reading_for = "pod1"
        try:
            await play(lookups, told)
        finally:
            await lookups.close()

    run_virtually(go())


def test_an_object_is_unknown_until_its_kind_is_listed_and_its_askers_hear() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        assert lookups.find(*JOB) is UNKNOWN
        await lookups.synced(60)
        assert lookups.find(*JOB) == TRAIN
        assert lookups.find("batch", "Job", "team", "another") is None
        assert {"pod1"} in told

    with_lookups(FakeApi(TRAIN), play)


def test_a_kind_that_nobody_knows_has_no_objects() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        assert lookups.find("example.com", "Thing", "team", "x") is None
        await lookups.synced(1)

    with_lookups(FakeApi(), play)


def test_settled_waits_for_what_follows_from_what_is_found() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        def look_further(uids: set[str]) -> None:
            lookups.find("jobset.x-k8s.io", "JobSet", "team", "all")

        lookups._changed = look_further
        lookups.find(*JOB)
        await lookups.synced(60)
        assert lookups.find("jobset.x-k8s.io", "JobSet", "team", "all") == SET

    with_lookups(FakeApi(TRAIN, SET), play)


def test_settled_does_not_wait_for_ever() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        lookups.find(*JOB)
        await lookups.synced(5)
        assert lookups.find(*JOB) is UNKNOWN

    with_lookups(FakeApi(TRAIN, slow=True), play)


def test_the_best_version_that_is_there_is_watched() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        lookups.find("scheduling.k8s.io", "PodGroup", "team", "g")
        await lookups.synced(60)
        reflector = lookups._kinds["scheduling.k8s.io", "PodGroup"]
        assert reflector is not None
        assert reflector.path == "/apis/scheduling.k8s.io/v1alpha3/podgroups"

    with_lookups(FakeApi(missing=("v1beta1",)), play)


def test_the_topmost_owner_that_is_known_makes_the_pods() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        pod = making.pod(owner=TRAIN)
        assert lookups.top_owner(making.pod()) is None
        assert (lookups.top_owner(pod) or {})["name"] == "train"
        lookups.find(*JOB)
        await lookups.synced(60)
        assert (lookups.top_owner(pod) or {})["name"] == "all"

    with_lookups(FakeApi(TRAIN, SET), play)


def test_a_pod_that_is_gone_is_not_told_any_more() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        lookups.find(*JOB)
        lookups.forget("pod1")
        lookups.forget("never seen")
        await lookups.synced(60)
        assert told == []

    with_lookups(FakeApi(TRAIN), play)


def test_an_owner_is_deleted_with_its_pods_and_no_other_of_its_name() -> None:
    async def play(lookups: Lookups, told: list[set[str]]) -> None:
        assert await lookups.get("batch/v1", "Job", "team", "train") == TRAIN
        await lookups.delete("batch/v1", "Job", TRAIN)

    api = FakeApi(TRAIN)
    with_lookups(api, play)
    ((path, options),) = api.deleted
    assert path == "/apis/batch/v1/namespaces/team/jobs/train"
    assert options["preconditions"] == {"uid": "uid-of-train"}
    assert options["propagationPolicy"] == "Background"
