"""What the client does when the server is busy, slow, cut off or strange."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from pathlib import Path

import pytest
from aiohttp import web

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.kube.access import KubeAccess, TokenFile
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.fake_server import cut, json_answer, refusal, serving, speak

PATH = "/api/v1/pods"


class Pauses(list[float]):
    """Noted and not made."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def test_what_is_sent_arrives_and_the_answer_comes_back():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return json_answer(
            {
                "method": request.method,
                "path": request.path,
                "query": dict(request.query),
                "type": request.headers.get("Content-Type"),
                "content": await request.json() if request.can_read_body else None,
            },
            201,
        )

    async def work(api: AsyncKubeApi) -> list[Object]:
        return [
            await api.get(PATH, fieldSelector="spec.nodeName=,status.phase!=Failed", labelSelector="a in (b, c)"),
            await api.post(PATH, {"a": "ü"}),
            await api.patch(PATH, {"a": None}),
            await api.patch(PATH, [{"op": "test"}], kind="json"),
            await api.delete(PATH, {"preconditions": {"uid": "1"}}),
            await api.delete(PATH),
        ]

    got, posted, patched, listed, deleted, bare = speak(answer, work)  # type: ignore[misc]
    assert got["query"] == {"fieldSelector": "spec.nodeName=,status.phase!=Failed", "labelSelector": "a in (b, c)"}
    assert (posted["method"], posted["type"], posted["content"]) == ("POST", "application/json", {"a": "ü"})
    assert (patched["type"], patched["content"]) == ("application/merge-patch+json", {"a": None})
    assert (listed["type"], listed["content"]) == ("application/json-patch+json", [{"op": "test"}])
    assert deleted["content"] == {"preconditions": {"uid": "1"}}
    assert bare["content"] is None


def test_a_refusal_says_what_and_why():
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return refusal(409, "AlreadyExists", "it is there", Retry_After="3")

    with pytest.raises(ApiRefused) as caught:
        speak(answer, lambda api: api.post(PATH, {}))
    error = caught.value
    assert (error.status, error.reason, error.message, error.retry_after_s) == (
        409,
        "AlreadyExists",
        "it is there",
        3.0,
    )
    assert (error.is_conflict, error.already_exists, error.is_expired, error.is_missing) == (True, True, False, False)


@pytest.mark.parametrize(("status", "text"), [(502, "<html>bad gateway</html>"), (302, "elsewhere"), (200, "<html>")])
def test_an_answer_that_is_no_json_is_a_refusal(status: int, text: str):
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    with pytest.raises(ApiRefused) as caught:
        speak(answer, lambda api: api.get(PATH))
    assert caught.value.status == status


class Busy:
    """Says so a number of times, and then yes."""

    def __init__(self, times: int, status: int, **headers: str) -> None:
        self.left = times
        self.asked = 0
        self._status = status
        self._headers = headers

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        self.left -= 1
        return refusal(self._status, "Busy", **self._headers) if self.left >= 0 else json_answer({"ok": True})


def test_who_is_asked_to_come_later_does():
    server = Busy(3, 429, Retry_After="2")
    pauses = Pauses()
    assert speak(server, lambda api: api.post(PATH, {}), sleep=pauses) == {"ok": True}
    assert server.asked == 4
    assert len(pauses) == 3
    assert all(2.0 <= pause <= 2.5 for pause in pauses)


def test_patience_has_an_end():
    server = Busy(100, 429, Retry_After="1")
    with pytest.raises(ApiRefused, match="429"):
        speak(server, lambda api: api.get(PATH), sleep=Pauses())
    assert server.asked == 6


def test_without_a_time_there_is_no_second_try():
    """Such is the answer to an eviction that a budget forbids: it would be the same at once."""
    server = Busy(1, 429)
    with pytest.raises(ApiRefused):
        speak(server, lambda api: api.post(PATH, {}))
    assert server.asked == 1


def test_what_must_not_happen_twice_is_not_tried_twice():
    posted, put = Busy(1, 503, Retry_After="1"), Busy(1, 503, Retry_After="1")
    with pytest.raises(ApiRefused):
        speak(posted, lambda api: api.post(PATH, {}), sleep=Pauses())
    assert speak(put, lambda api: api.put(PATH, {}), sleep=Pauses()) == {"ok": True}
    assert (posted.asked, put.asked) == (1, 2)


def test_a_server_that_is_away():
    async def run() -> None:
        async with serving(Busy(0, 200)) as access:
            pass
        async with AsyncKubeApi(access) as api:
            await api.post(PATH, {})

    with pytest.raises(ApiUnreachable) as caught:
        asyncio.run(run())
    assert not caught.value.may_be_done


def test_a_connection_that_breaks_leaves_it_open_whether_it_was_done():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        cut(request)
        return web.Response()

    with pytest.raises(ApiUnreachable) as caught:
        speak(answer, lambda api: api.post(PATH, {}))
    assert caught.value.may_be_done


def test_an_answer_that_does_not_come_is_not_waited_for():
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ApiUnreachable):
        speak(answer, lambda api: api.get(PATH), timeout_s=0.05)


def test_no_more_than_allowed_are_in_flight_and_urgent_ones_pass_by():
    counts: list[int] = []
    inside = 0

    async def run() -> None:
        full, go_on = asyncio.Event(), asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            nonlocal inside
            if request.path == "/urgent":
                return json_answer({})
            inside += 1
            counts.append(inside)
            if inside == 3:
                full.set()
            await go_on.wait()
            inside -= 1
            return json_answer({})

        async with serving(answer) as access, AsyncKubeApi(access, in_flight=3) as api:
            many = [asyncio.create_task(api.post(PATH, {})) for _ in range(10)]
            await asyncio.wait_for(full.wait(), 20)
            await api.get("/urgent", urgent=True)
            assert not any(task.done() for task in many)
            go_on.set()
            await asyncio.gather(*many)

    asyncio.run(run())
    assert max(counts) == 3
    assert len(counts) == 10


def test_requests_are_spread_when_a_rate_is_set():
    async def work(api: AsyncKubeApi) -> None:
        for _ in range(200):
            await api.get(PATH)

    pauses = Pauses()
    speak(Busy(0, 200), work, per_second=1.0, sleep=pauses)
    assert pauses[0] > 0.8
    assert pauses[-1] > 150.0


def test_a_token_that_was_replaced_is_read_again(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text("old")

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        given = request.headers["Authorization"]
        return json_answer({"given": given}) if given == "Bearer new" else refusal(401, "Unauthorized")

    async def run() -> Object:
        async with serving(answer) as access, AsyncKubeApi(dataclasses.replace(access, token=TokenFile(path))) as api:
            with contextlib.suppress(ApiRefused):
                await api.get(PATH)
            (tmp_path / "next").write_text("new")
            (tmp_path / "next").rename(path)
            return await api.get(PATH)

    assert asyncio.run(run()) == {"given": "Bearer new"}


class Renewable:
    """Expires on the server's word, as tokens from a command do."""

    def __init__(self) -> None:
        self.number = 0

    def now(self) -> str | None:
        return f"t{self.number}" if self.number else None

    def renew(self) -> bool:
        self.number += 1
        return True


def test_a_token_that_the_server_refuses_is_renewed_once():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        good = request.headers["Authorization"] == "Bearer t2"
        return json_answer({"ok": True}) if good else refusal(401, "Unauthorized")

    async def run(token: Renewable) -> Object:
        async with serving(answer) as access, AsyncKubeApi(dataclasses.replace(access, token=token)) as api:
            return await api.post(PATH, {})

    assert asyncio.run(run(Renewable())) == {"ok": True}
    late = Renewable()
    late.number = 5
    with pytest.raises(ApiRefused, match="401"):
        asyncio.run(run(late))
    assert late.number == 6


def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert speak(Busy(0, 200), lambda api: api.get(PATH)) == {"ok": True}


def test_the_access_of_a_client_needs_no_token():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return json_answer({"authorization": request.headers.get("Authorization")})

    async def run() -> Object:
        async with serving(answer) as access, AsyncKubeApi(KubeAccess(access.url)) as api:
            return await api.get(PATH)

    assert asyncio.run(run()) == {"authorization": None}
