"""Tests of lists and watch streams of the client, and of a reflector that uses them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from gpusquad.engines.kubernetes.client import api as api_module
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.reflector import Reflector
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.fake_server import (
    abort_connection,
    call_server,
    event_line,
    json_answer,
    refusal,
    serving,
    start_stream,
)

PATH = "/api/v1/pods"


def pod(name: str, version: int, **more: str) -> Object:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **more}


def list_answer(items: list[Object], version: int, more: str = "") -> Object:
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    items_without_kind = [
        {key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items
    ]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items_without_kind}


def test_list_is_read_in_pages_and_its_objects_have_a_kind():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["limit"] == "2"
        start = int(request.query.get("continue", 0))
        items = [pod(f"p{number}", number) for number in range(start, min(start + 2, 5))]
        return json_answer(list_answer(items, 9, str(start + 2) if start + 2 < 5 else ""))

    listed = call_server(answer, lambda api: api.list(PATH), page=2)
    assert listed == api_module.ObjectList([pod(f"p{number}", number) for number in range(5)], "9")


def test_list_is_requested_without_pages_when_they_expired():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "continue" in request.query:
            return refusal(410, "Expired")
        if "limit" in request.query:
            return json_answer(list_answer([pod("a", 1)], 5, "next"))
        return json_answer(list_answer([pod("a", 1), pod("b", 6)], 6))

    listed = call_server(answer, lambda api: api.list(PATH))
    assert listed == api_module.ObjectList([pod("a", 1), pod("b", 6)], "6")


async def all_events(api: AsyncKubeApi) -> list[Object]:
    return [event async for event in api.watch(PATH, "7")]


def test_stream_is_split_into_lines_for_any_chunk_size():
    large = pod("large", 9, padding="x" * 3_000_000)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["resourceVersion"] == "7"
        stream = await start_stream(request)
        small = event_line("ADDED", pod("small", 8))
        for piece in (small[:10], small[10:] + event_line("ADDED", large) + b"\n", event_line("BOOKMARK", pod("", 10))):
            await stream.write(piece)
        await stream.write(event_line("ADDED", pod("cut", 11))[:20])  # never completed
        return stream

    events = call_server(answer, all_events)
    assert events == [
        {"type": "ADDED", "object": pod("small", 8)},
        {"type": "ADDED", "object": large},
        {"type": "BOOKMARK", "object": pod("", 10)},
    ]


def test_refused_stream_raises():
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return refusal(410, "Expired", "too old")

    with pytest.raises(ApiRefused) as caught:
        call_server(answer, all_events)
    assert caught.value.is_expired


def test_broken_stream_raises_after_its_events():
    events: list[Object] = []

    async def run() -> None:
        seen = asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            stream = await start_stream(request)
            await stream.write(event_line("ADDED", pod("a", 8)))
            await seen.wait()
            abort_connection(request)
            return stream

        async with serving(answer) as access, AsyncKubeApi(access) as api:
            async for event in api.watch(PATH, "7"):
                events.append(event)
                seen.set()

    with pytest.raises(ApiUnreachable):
        asyncio.run(run())
    assert [event["type"] for event in events] == ["ADDED"]


def test_silent_stream_times_out(monkeypatch: pytest.MonkeyPatch):
    """A server that disappears does not close the connection."""
    monkeypatch.setattr(api_module, "_SILENCE_S", 0.05)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await start_stream(request)
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ApiUnreachable):
        call_server(answer, all_events)


class ScriptedServer:
    """Sends lists and streams in order; after the last one a stream stays open."""

    def __init__(self, lists: list[Object], streams: list[list[bytes] | ApiRefused]) -> None:
        self.lists = lists
        self.streams = streams
        self.requests: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            self.requests.append("list")
            return json_answer(self.lists.pop(0))
        self.requests.append(request.query["resourceVersion"])
        if not self.streams:
            await start_stream(request)
            await asyncio.Event().wait()
        lines = self.streams.pop(0)
        if isinstance(lines, ApiRefused):
            return refusal(lines.status, lines.reason)
        stream = await start_stream(request)
        await stream.write(b"".join(lines))
        return stream


def changes_until(script: ScriptedServer, last: str, relist_s: float = 600.0) -> tuple[list[str], Reflector]:
    changes: list[str] = []

    async def run() -> Reflector:
        finished = asyncio.Event()

        def on_change(change: str, item: Object, before: Object | None) -> None:
            changes.append(f"{change} {item['metadata']['name']} {item['metadata']['resourceVersion']}")
            if changes[-1] == last:
                finished.set()

        async def skip(_: float) -> None:
            await asyncio.sleep(0)

        async with serving(script) as access, AsyncKubeApi(access) as api:
            reflector = Reflector(api, PATH, on_change=on_change, sleep=skip, relist_s=relist_s)
            task = asyncio.create_task(reflector.run())
            await asyncio.wait_for(finished.wait(), 20)
            task.cancel()
            await asyncio.wait([task])
            return reflector

    return changes, asyncio.run(run())


def test_reflector_continues_after_each_kind_of_stream_end():
    error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    script = ScriptedServer(
        [list_answer([pod("a", 1)], 5), list_answer([pod("b", 9)], 10), list_answer([pod("b", 9), pod("c", 14)], 15)],
        [
            [event_line("MODIFIED", pod("a", 6))],  # a clean end
            [event_line("BOOKMARK", pod("", 8)), event_line("ERROR", error)],
            [event_line("BOOKMARK", pod("", 12))],
            ApiRefused(410, "Expired"),
            [event_line("DELETED", pod("b", 16))],
        ],
    )
    changes, reflector = changes_until(script, "deleted b 16")
    assert changes == ["added a 1", "changed a 6", "deleted a 6", "added b 9", "added c 14", "deleted b 16"]
    assert script.requests[:8] == ["list", "5", "6", "list", "10", "12", "list", "15"]
    assert (reflector.stats.lists, reflector.stats.gaps) == (3, 2)


def test_deletion_of_an_earlier_object_of_the_same_name_is_ignored():
    earlier = pod("a", 6)
    earlier["metadata"]["uid"] = "earlier"
    script = ScriptedServer(
        [list_answer([pod("a", 1)], 5)], [[event_line("DELETED", earlier), event_line("MODIFIED", pod("a", 7))]]
    )
    changes, _ = changes_until(script, "changed a 7")
    assert changes == ["added a 1", "changed a 7"]


def test_reflector_lists_again_while_the_stream_is_open():
    """A periodic list finds changes that the stream lost."""
    script = ScriptedServer([list_answer([], 5), list_answer([pod("missed", 4)], 6)], [])
    changes, reflector = changes_until(script, "added missed 4", relist_s=0.05)
    assert changes == ["added missed 4"]
    assert reflector.stats.gaps == 0
