"""Tests of the engine's Kubernetes API client against a real API server."""

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


def run_with_client(
    plane: ControlPlane, use_api: Callable[[AsyncKubeApi], Awaitable[object]], user: str = "admin", page: int = 500
) -> object:
    async def run() -> object:
        async with AsyncKubeApi(load_access(plane.kubeconfig(user)), page=page) as api:
            return await asyncio.wait_for(use_api(api), 60)

    return asyncio.run(run())


def test_client_creates_changes_and_deletes_an_object(plane: ControlPlane):
    path = f"{MAPS}/life"

    async def use_api(api: AsyncKubeApi) -> None:
        made = await api.post(MAPS, {"metadata": {"name": "life"}, "data": {"a": "1"}})
        with pytest.raises(ApiRefused) as duplicate:
            await api.post(MAPS, {"metadata": {"name": "life"}})
        assert duplicate.value.already_exists
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

    run_with_client(plane, use_api)


def test_missing_right_is_named_in_the_error(plane: ControlPlane):
    plane.allow([])
    with pytest.raises(ApiRefused) as caught:
        run_with_client(plane, lambda api: api.list("/api/v1/nodes"), RESTRICTED)
    assert caught.value.is_forbidden
    assert 'cannot list resource "nodes"' in caught.value.message


def test_list_is_the_same_with_and_without_pages(plane: ControlPlane):
    """A paged list has each object once, in the same form as a watch."""

    async def use_api(api: AsyncKubeApi) -> None:
        listed = await api.list("/api/v1/nodes", labelSelector="kubernetes.io/os=linux")
        assert sorted(name_of(item) for item in listed.items) == ["fake-0", "fake-1", "fake-2", "fake-3"]
        assert {(item["kind"], item["apiVersion"]) for item in listed.items} == {("Node", "v1")}
        assert int(listed.version) > 0

    run_with_client(plane, use_api, page=3)
    run_with_client(plane, use_api)


def test_watch_yields_events_after_a_version(plane: ControlPlane):
    async def use_api(api: AsyncKubeApi) -> None:
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

    run_with_client(plane, use_api)


def test_server_certificate_of_another_authority_is_refused(plane: ControlPlane):
    access = dataclasses.replace(load_access(plane.kubeconfig()), authority="")

    async def run() -> None:
        async with AsyncKubeApi(access) as api:
            await api.get("/version")

    with pytest.raises(ApiUnreachable, match="certificate verify failed") as caught:
        asyncio.run(run())
    assert plane.token() not in str(caught.value)


def test_wrong_token_is_refused(plane: ControlPlane):
    access = dataclasses.replace(load_access(plane.kubeconfig()), token=FixedToken("wrong"))

    async def run() -> None:
        async with AsyncKubeApi(access) as api:
            await api.get("/version")

    with pytest.raises(ApiRefused, match="401"):
        asyncio.run(run())


def test_concurrent_bindings_bind_each_pod_once(plane: ControlPlane):
    """Of two concurrent bindings of a pod, one succeeds and the other is a conflict."""
    names = [make_pod(plane.admin) for _ in range(20)]

    async def use_api(api: AsyncKubeApi) -> None:
        def bind(name: str) -> Awaitable[object]:
            content = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "fake-0"}}
            return api.post(f"{PODS}/{name}/binding", content)

        answers = await asyncio.gather(*(bind(name) for name in names * 2), return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, ApiRefused)]
        assert len(refused) == len(names)
        assert all(error.is_conflict for error in refused)
        assert not [answer for answer in answers if isinstance(answer, ApiUnreachable)]
        await asyncio.gather(*(api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0}) for name in names))

    run_with_client(plane, use_api)
