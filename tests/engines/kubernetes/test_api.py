"""Tests of the client when the server is busy, slow, unreachable or answers unexpectedly."""

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
from tests.engines.kubernetes.fake_server import abort_connection, call_server, json_answer, refusal, serving

PATH = "/api/v1/pods"


class RecordedDelays(list[float]):
    """Records delays without waiting."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def test_requests_and_answers_pass_through_the_client():
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

    got, posted, patched, listed, deleted, bare = call_server(answer, work)  # type: ignore[misc]
    assert got["query"] == {"fieldSelector": "spec.nodeName=,status.phase!=Failed", "labelSelector": "a in (b, c)"}
    assert (posted["method"], posted["type"], posted["content"]) == ("POST", "application/json", {"a": "ü"})
    assert (patched["type"], patched["content"]) == ("application/merge-patch+json", {"a": None})
    assert (listed["type"], listed["content"]) == ("application/json-patch+json", [{"op": "test"}])
    assert deleted["content"] == {"preconditions": {"uid": "1"}}
    assert bare["content"] is None


def test_refusal_has_status_reason_and_message():
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return refusal(409, "AlreadyExists", "it is there", Retry_After="3")

    with pytest.raises(ApiRefused) as caught:
        call_server(answer, lambda api: api.post(PATH, {}))
    error = caught.value
    assert (error.status, error.reason, error.message, error.retry_after_s) == (
        409,
        "AlreadyExists",
        "it is there",
        3.0,
    )
    assert (error.is_conflict, error.already_exists, error.is_expired, error.is_missing) == (True, True, False, False)


@pytest.mark.parametrize(("status", "text"), [(502, "<html>bad gateway</html>"), (302, "elsewhere"), (200, "<html>")])
def test_answer_that_is_not_json_is_a_refusal(status: int, text: str):
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    with pytest.raises(ApiRefused) as caught:
        call_server(answer, lambda api: api.get(PATH))
    assert caught.value.status == status


class BusyServer:
    """Refuses a number of requests, then accepts."""

    def __init__(self, times: int, status: int, **headers: str) -> None:
        self.left = times
        self.requests = 0
        self._status = status
        self._headers = headers

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        self.left -= 1
        return refusal(self._status, "Busy", **self._headers) if self.left >= 0 else json_answer({"ok": True})


def test_request_is_retried_after_the_requested_delay():
    server = BusyServer(3, 429, Retry_After="2")
    delays = RecordedDelays()
    assert call_server(server, lambda api: api.post(PATH, {}), sleep=delays) == {"ok": True}
    assert server.requests == 4
    assert len(delays) == 3
    assert all(2.0 <= delay <= 2.5 for delay in delays)


def test_number_of_retries_is_limited():
    server = BusyServer(100, 429, Retry_After="1")
    with pytest.raises(ApiRefused, match="429"):
        call_server(server, lambda api: api.get(PATH), sleep=RecordedDelays())
    assert server.requests == 6


def test_refusal_without_retry_after_is_not_retried():
    """For example a refused eviction: an immediate retry would be refused again."""
    server = BusyServer(1, 429)
    with pytest.raises(ApiRefused):
        call_server(server, lambda api: api.post(PATH, {}))
    assert server.requests == 1


def test_post_is_not_retried_after_a_server_error():
    posted, put = BusyServer(1, 503, Retry_After="1"), BusyServer(1, 503, Retry_After="1")
    with pytest.raises(ApiRefused):
        call_server(posted, lambda api: api.post(PATH, {}), sleep=RecordedDelays())
    assert call_server(put, lambda api: api.put(PATH, {}), sleep=RecordedDelays()) == {"ok": True}
    assert (posted.requests, put.requests) == (1, 2)


def test_unreachable_server_raises_without_the_request_being_sent():
    async def run() -> None:
        async with serving(BusyServer(0, 200)) as access:
            pass
        async with AsyncKubeApi(access) as api:
            await api.post(PATH, {})

    with pytest.raises(ApiUnreachable) as caught:
        asyncio.run(run())
    assert not caught.value.may_be_done


def test_broken_connection_raises_with_an_unknown_outcome():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        abort_connection(request)
        return web.Response()

    with pytest.raises(ApiUnreachable) as caught:
        call_server(answer, lambda api: api.post(PATH, {}))
    assert caught.value.may_be_done


def test_missing_answer_times_out():
    async def answer(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(ApiUnreachable):
        call_server(answer, lambda api: api.get(PATH), timeout_s=0.05)


def test_requests_in_flight_are_limited_except_urgent_ones():
    counts: list[int] = []
    running = 0

    async def run() -> None:
        limit_reached, may_answer = asyncio.Event(), asyncio.Event()

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            nonlocal running
            if request.path == "/urgent":
                return json_answer({})
            running += 1
            counts.append(running)
            if running == 3:
                limit_reached.set()
            await may_answer.wait()
            running -= 1
            return json_answer({})

        async with serving(answer) as access, AsyncKubeApi(access, in_flight=3) as api:
            many = [asyncio.create_task(api.post(PATH, {})) for _ in range(10)]
            await asyncio.wait_for(limit_reached.wait(), 20)
            await api.get("/urgent", urgent=True)
            assert not any(task.done() for task in many)
            may_answer.set()
            await asyncio.gather(*many)

    asyncio.run(run())
    assert max(counts) == 3
    assert len(counts) == 10


def test_requests_are_delayed_when_a_rate_is_set():
    async def work(api: AsyncKubeApi) -> None:
        for _ in range(200):
            await api.get(PATH)

    delays = RecordedDelays()
    call_server(BusyServer(0, 200), work, per_second=1.0, sleep=delays)
    assert delays[0] > 0.8
    assert delays[-1] > 150.0


def test_replaced_token_file_is_read_again(tmp_path: Path):
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


class RenewableToken:
    """Expires when the server refuses it, as tokens from a command do."""

    def __init__(self) -> None:
        self.number = 0

    def now(self) -> str | None:
        return f"t{self.number}" if self.number else None

    def renew(self) -> bool:
        self.number += 1
        return True


def test_refused_token_is_renewed_once():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        is_valid = request.headers["Authorization"] == "Bearer t2"
        return json_answer({"ok": True}) if is_valid else refusal(401, "Unauthorized")

    async def run(token: RenewableToken) -> Object:
        async with serving(answer) as access, AsyncKubeApi(dataclasses.replace(access, token=token)) as api:
            return await api.post(PATH, {})

    assert asyncio.run(run(RenewableToken())) == {"ok": True}
    expired = RenewableToken()
    expired.number = 5
    with pytest.raises(ApiRefused, match="401"):
        asyncio.run(run(expired))
    assert expired.number == 6


def test_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert call_server(BusyServer(0, 200), lambda api: api.get(PATH)) == {"ok": True}


def test_access_without_a_token_sends_no_authorization():
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return json_answer({"authorization": request.headers.get("Authorization")})

    async def run() -> Object:
        async with serving(answer) as access, AsyncKubeApi(KubeAccess(access.url)) as api:
            return await api.get(PATH)

    assert asyncio.run(run()) == {"authorization": None}
