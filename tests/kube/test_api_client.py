"""The engine's client and a real API server understand each other."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable

import pytest

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.kube.access import FixedToken, load_access
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import name_of
from tests.kube.plane import RESTRICTED, ControlPlane
from tests.kube.pods import PODS, make_pod

MAPS = "/api/v1/namespaces/default/configmaps"


def speak(
    plane: ControlPlane, work: Callable[[AsyncKubeApi], Awaitable[object]], user: str = "admin", page: int = 500
) -> object:
    async def run() -> object:
        async with AsyncKubeApi(load_access(plane.kubeconfig(user)), page=page) as api:
            return await asyncio.wait_for(work(api), 60)

    return asyncio.run(run())


def test_the_life_of_an_object(plane: ControlPlane):
    path = f"{MAPS}/life"

    async def work(api: AsyncKubeApi) -> None:
        made = await api.post(MAPS, {"metadata": {"name": "life"}, "data": {"a": "1"}})
        with pytest.raises(ApiRefused) as there:
            await api.post(MAPS, {"metadata": {"name": "life"}})
        assert there.value.already_exists
        changed = await api.put(path, {**made, "data": {"a": "2"}})
        with pytest.raises(ApiRefused) as conflict:
            await api.put(path, {**made, "data": {"a": "3"}})
        assert (conflict.value.is_conflict, conflict.value.reason) == (True, "Conflict")
        patched = await api.patch(path, {"data": {"a": None, "b": "4"}})
        assert patched["data"] == {"b": "4"}
        applied = await api.patch(
            path,
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "5"}},
            kind="apply",
            fieldManager="test",
        )
        assert applied["data"] == {"b": "4", "c": "5"}
        with pytest.raises(ApiRefused) as other:
            await api.delete(path, {"preconditions": {"uid": "another"}})
        assert other.value.is_conflict
        await api.delete(path, {"preconditions": {"uid": changed["metadata"]["uid"]}})
        with pytest.raises(ApiRefused) as missing:
            await api.get(path)
        assert (missing.value.is_missing, missing.value.reason) == (True, "NotFound")

    speak(plane, work)


def test_a_missing_right_is_named(plane: ControlPlane):
    plane.allow([])
    with pytest.raises(ApiRefused) as caught:
        speak(plane, lambda api: api.list("/api/v1/nodes"), RESTRICTED)
    assert caught.value.is_forbidden
    assert 'cannot list resource "nodes"' in caught.value.message


def test_pages_and_one_list_are_the_same(plane: ControlPlane):
    """In pages, each object once, and of the same shape as a stream would bring it."""

    async def work(api: AsyncKubeApi) -> None:
        listed = await api.list("/api/v1/nodes", labelSelector="kubernetes.io/os=linux")
        assert sorted(name_of(item) for item in listed.items) == ["fake-0", "fake-1", "fake-2", "fake-3"]
        assert {(item["kind"], item["apiVersion"]) for item in listed.items} == {("Node", "v1")}
        assert int(listed.version) > 0

    speak(plane, work, page=3)
    speak(plane, work)


def test_a_stream_brings_what_happens_after_a_version(plane: ControlPlane):
    async def work(api: AsyncKubeApi) -> None:
        listed = await api.list(MAPS)
        await api.post(MAPS, {"metadata": {"name": "seen"}, "data": {"large": "x" * 500_000}})
        await api.delete(f"{MAPS}/seen")
        seen = []
        async with contextlib.aclosing(api.watch(MAPS, listed.version, fieldSelector="metadata.name=seen")) as events:
            async for event in events:
                seen.append((event["type"], event["object"]["kind"], len(event["object"]["data"]["large"])))
                if len(seen) == 2:
                    break
        assert seen == [("ADDED", "ConfigMap", 500_000), ("DELETED", "ConfigMap", 500_000)]

    speak(plane, work)


def test_a_server_with_another_authority_is_not_believed(plane: ControlPlane):
    access = dataclasses.replace(load_access(plane.kubeconfig()), authority="")

    async def run() -> None:
        async with AsyncKubeApi(access) as api:
            await api.get("/version")

    with pytest.raises(ApiUnreachable, match="certificate verify failed") as caught:
        asyncio.run(run())
    assert plane.token() not in str(caught.value)


def test_a_wrong_token_is_refused(plane: ControlPlane):
    access = dataclasses.replace(load_access(plane.kubeconfig()), token=FixedToken("wrong"))

    async def run() -> None:
        async with AsyncKubeApi(access) as api:
            await api.get("/version")

    with pytest.raises(ApiRefused, match="401"):
        asyncio.run(run())


def test_many_bindings_at_once(plane: ControlPlane):
    """Each is done once, and a second one for the same pod is a conflict, whichever of them comes first."""
    names = [make_pod(plane.admin) for _ in range(20)]

    async def work(api: AsyncKubeApi) -> None:
        def bind(name: str) -> Awaitable[object]:
            content = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "fake-0"}}
            return api.post(f"{PODS}/{name}/binding", content)

        answers = await asyncio.gather(*(bind(name) for name in names * 2), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, ApiRefused)]
        assert len(refused) == len(names)
        assert all(error.is_conflict for error in refused)
        assert not [answer for answer in answers if isinstance(answer, ApiUnreachable)]
        await asyncio.gather(*(api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0}) for name in names))

    speak(plane, work)
