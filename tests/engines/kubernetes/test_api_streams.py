"""Lists and streams of the API server as the client reads them, and a reflector on top of it."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from gpusquad.engines.kubernetes.client import api as api_module
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.reflector import Reflector
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.fake_server import begin_stream, cut, json_answer, line, refusal, serving, speak

PATH = "/api/v1/pods"


def pod(name: str, version: int, **more: str) -> Object:
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, **more}


def listing(items: list[Object], version: int, more: str = "") -> Object:
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    bare = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": bare}


def test_a_list_comes_in_pages_and_its_objects_have_a_kind():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["limit"] == "2"
        place = int(request.query.get("continue", 0))
        items = [pod(f"p{number}", number) for number in range(place, min(place + 2, 5))]
        return json_answer(listing(items, 9, str(place + 2) if place + 2 < 5 else ""))

    listed = speak(answer, lambda api: api.list(PATH), page=2)
    assert listed == api_module.ObjectList([pod(f"p{number}", number) for number in range(5)], "9")


def test_a_list_whose_pages_ran_out_of_time_is_asked_for_as_a_whole():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "continue" in request.query:
            return refusal(410, "Expired")
        if "limit" in request.query:
            return json_answer(listing([pod("a", 1)], 5, "next"))
        return json_answer(listing([pod("a", 1), pod("b", 6)], 6))

    listed = speak(answer, lambda api: api.list(PATH))
    assert listed == api_module.ObjectList([pod("a", 1), pod("b", 6)], "6")


async def all_events(api: AsyncKubeApi) -> list[Object]:
    return [event async for event in api.watch(PATH, "7")]


def test_a_stream_with_lines_of_any_length_in_pieces_of_any_size():
    large = pod("large", 9, padding="x" * 3_000_000)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.query["resourceVersion"] == "7"
        stream = await begin_stream(request)
        small = line("ADDED", pod("small", 8))
        for piece in (small[:10], small[10:] + line("ADDED", large) + b"\n", line("BOOKMARK", pod("", 10))):
            await stream.write(piece)
        await stream.write(line("ADDED", pod("cut", 11))[:20])  # its end never comes
        return stream

    events = speak(answer, all_events)
    assert events == [
        {"type": "ADDED", "object": pod("small", 8)},
        {"type": "ADDED", "object": large},
        {"type": "BOOKMARK", "object": pod("", 10)},
    ]


def test_a_stream_that_is_refused():
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return refusal(410, "Expired", "too old")

    with pytest.raises(ApiRefused) as caught:
        speak(answer, all_events)
    assert caught.value.is_expired


def test_a_stream_that_breaks_gives_what_came_before():
    got: list[Object] = []

    async def run() -> None:
        seen = asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            stream = await begin_stream(request)
            await stream.write(line("ADDED", pod("a", 8)))
            await seen.wait()
            cut(request)
            return stream

        async with serving(answer) as access, AsyncKubeApi(access) as api:
            async for event in api.watch(PATH, "7"):
                got.append(event)
                seen.set()

    with pytest.raises(ApiUnreachable):
        asyncio.run(run())
    assert [event["type"] for event in got] == ["ADDED"]


def test_a_silent_stream_is_given_up(monkeypatch: pytest.MonkeyPatch):
    """A machine that vanished does not say goodbye."""
    monkeypatch.setattr(api_module, "_SILENCE_S", 0.05)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        await begin_stream(request)
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ApiUnreachable):
        speak(answer, all_events)


class Script:
    """Lists and streams, one after the other; the last stream stays open."""

    def __init__(self, lists: list[Object], streams: list[list[bytes] | ApiRefused]) -> None:
        self.lists = lists
        self.streams = streams
        self.asked: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            self.asked.append("list")
            return json_answer(self.lists.pop(0))
        self.asked.append(request.query["resourceVersion"])
        if not self.streams:
            await begin_stream(request)
            await asyncio.Event().wait()
        lines = self.streams.pop(0)
        if isinstance(lines, ApiRefused):
            return refusal(lines.status, lines.reason)
        stream = await begin_stream(request)
        await stream.write(b"".join(lines))
        return stream


def heard_until(script: Script, last: str, relist_s: float = 600.0) -> tuple[list[str], Reflector]:
    heard: list[str] = []

    async def run() -> Reflector:
        over = asyncio.Event()

        def on_change(change: str, item: Object, before: Object | None) -> None:
            heard.append(f"{change} {item['metadata']['name']} {item['metadata']['resourceVersion']}")
            if heard[-1] == last:
                over.set()

        async def skip(_: float) -> None:
            await asyncio.sleep(0)

        async with serving(script) as access, AsyncKubeApi(access) as api:
            made = Reflector(api, PATH, on_change=on_change, sleep=skip, relist_s=relist_s)
            task = asyncio.create_task(made.run())
            await asyncio.wait_for(over.wait(), 20)
            task.cancel()
            await asyncio.wait([task])
            return made

    return heard, asyncio.run(run())


def test_a_reflector_goes_on_after_each_kind_of_end():
    error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
    script = Script(
        [listing([pod("a", 1)], 5), listing([pod("b", 9)], 10), listing([pod("b", 9), pod("c", 14)], 15)],
        [
            [line("MODIFIED", pod("a", 6))],  # a clean end
            [line("BOOKMARK", pod("", 8)), line("ERROR", error)],
            [line("BOOKMARK", pod("", 12))],
            ApiRefused(410, "Expired"),
            [line("DELETED", pod("b", 16))],
        ],
    )
    heard, made = heard_until(script, "deleted b 16")
    assert heard == ["added a 1", "changed a 6", "deleted a 6", "added b 9", "added c 14", "deleted b 16"]
    assert script.asked[:8] == ["list", "5", "6", "list", "10", "12", "list", "15"]
    assert (made.stats.lists, made.stats.gaps) == (3, 2)


def test_the_end_of_an_earlier_object_does_not_end_a_later_one_of_its_name():
    earlier = pod("a", 6)
    earlier["metadata"]["uid"] = "earlier"
    script = Script([listing([pod("a", 1)], 5)], [[line("DELETED", earlier), line("MODIFIED", pod("a", 7))]])
    heard, _ = heard_until(script, "changed a 7")
    assert heard == ["added a 1", "changed a 7"]


def test_a_reflector_leaves_a_good_stream_to_list_again():
    """The safety net: what a stream has swallowed is found all the same."""
    script = Script([listing([], 5), listing([pod("missed", 4)], 6)], [])
    heard, made = heard_until(script, "added missed 4", relist_s=0.05)
    assert heard == ["added missed 4"]
    assert made.stats.gaps == 0
