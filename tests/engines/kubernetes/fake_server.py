"""An HTTP server whose answers the test defines, for rare behaviour of a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
from aiohttp import web

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.kube.access import KubeAccess
from gpusquad.kube.objects import Object

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[KubeAccess]:
    """Pass every request to ``answer``."""
    runner = web.ServerRunner(web.Server(answer, handler_cancellation=True), shutdown_timeout=0.01)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        yield KubeAccess(f"http://{host}:{port}")
    finally:
        await runner.cleanup()


def json_answer(content: object, status: int = 200, **headers: str) -> web.Response:
    header_names = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.Response(
        body=orjson.dumps(content), status=status, content_type="application/json", headers=header_names
    )


def refusal(status: int, reason: str, message: str = "", **headers: str) -> web.Response:
    content = {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": message}
    return json_answer(content, status, **headers)


async def start_stream(request: web.BaseRequest) -> web.StreamResponse:
    stream = web.StreamResponse()
    stream.enable_chunked_encoding()
    await stream.prepare(request)
    return stream


def event_line(kind: str, item: Object) -> bytes:
    return orjson.dumps({"type": kind, "object": item}) + b"\n"


def abort_connection(request: web.BaseRequest) -> None:
    """Abort the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()


def call_server(answer: Answer, work: Callable[[AsyncKubeApi], Awaitable[object]], **settings: object) -> object:
    """Run ``work`` with a client of such a server and return its result."""

    async def run() -> object:
        async with serving(answer) as access, AsyncKubeApi(access, **settings) as api:  # type: ignore[arg-type]
            return await asyncio.wait_for(work(api), 20)

    return asyncio.run(run())
