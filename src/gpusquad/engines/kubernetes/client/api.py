"""HTTP client of the API server: plain JSON, many requests in flight, and retries as the server requests them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from gpusquad.kube.access import KubeAccess
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object
from gpusquad.model.errors import Invalid

PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
Shrink = Callable[[Object], Object]
"""Removes unused fields. It may change the object in place."""
Sleep = Callable[[float], Awaitable[None]]

_MAX_TRIES = 6
_MAX_RETRY_AFTER_S = 30.0
_IDLE_S = 30.0
"""Unused connections are closed after this time, before the server closes them."""
_SILENCE_S = 150.0
"""The server sends a bookmark about every minute. A stream that is silent for longer is broken."""
_WATCH_S = (300.0, 600.0)
"""Bounds of a watch's duration. The server ends the stream within them, so that streams spread over its replicas
again."""
_PIECE_BYTES = 2**20


@dataclass(frozen=True)
class ObjectList:
    """All objects of a collection at one version."""

    items: list[Object]
    version: str


class AsyncKubeApi:
    """Used in one event loop. Excess requests wait on the client's side, not at the server."""

    def __init__(
        self,
        access: KubeAccess,
        *,
        in_flight: int = 64,
        per_second: float | None = None,
        timeout_s: float = 30.0,
        page: int = 500,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._access = access
        self._slots = asyncio.Semaphore(in_flight)
        self._sleep = sleep
        self._pacer = _Pacer(per_second, sleep) if per_second else None
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._page = str(page)
        self._renewing = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        # Only needed if the certificate has another name than the address.
        self._request_options: dict[str, Any] = {"server_hostname": access.server_name} if access.server_name else {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends all requests and streams."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # --- one object ---
    # `urgent` requests skip the queue. For requests that must not be late, such as a lease renewal.

    async def get(self, path: str, *, urgent: bool = False, **query: str) -> Object:
        return await self._request("GET", path, query, None, "", urgent)

    async def post(self, path: str, content: Object, *, urgent: bool = False, **query: str) -> Object:
        return await self._request("POST", path, query, content, "application/json", urgent)

    async def put(self, path: str, content: Object, *, urgent: bool = False, **query: str) -> Object:
        return await self._request("PUT", path, query, content, "application/json", urgent)

    async def patch(
        self, path: str, content: Object | list[Object], *, kind: str = "merge", urgent: bool = False, **query: str
    ) -> Object:
        return await self._request("PATCH", path, query, content, PATCHES[kind], urgent)

    async def delete(self, path: str, options: Object | None = None, *, urgent: bool = False, **query: str) -> Object:
        """The options may contain a UID, so that a later object of the same name is not deleted."""
        return await self._request("DELETE", path, query, options, "application/json", urgent)

    async def read(self, path: str, **query: str) -> bytes:
        """A response that is not JSON: the log of a container."""
        url = self._url(path, query)
        async with self._slots:
            return await self._retry("GET", url, None, "", lambda content: content)

    # --- collections ---

    async def list(self, path: str, *, shrink: Shrink | None = None, **query: str) -> ObjectList:
        """The newest state, in pages, so that neither side holds it twice. `shrink` gets each object as it arrives."""
        try:
            return await self._list_pages(path, {**query, "limit": self._page}, shrink)
        except ApiRefused as error:
            if not error.is_expired:
                raise
            return await self._list_pages(path, dict(query), shrink)  # the pages expired: all in one request

    async def watch(self, path: str, version: str, **query: str) -> AsyncGenerator[Object, None]:
        """Events after the version, including bookmarks, as {"type", "object"}, until the server ends the stream.

        Raises ApiUnreachable if the stream breaks. An ERROR event (its object is a Status) is the last one.
        """
        parameters = {
            "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version,
            "timeoutSeconds": str(int(random.uniform(*_WATCH_S))), **query,
        }  # fmt: skip
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total, sock_read=_SILENCE_S)
        headers = await self._headers("")
        with _connection_errors(may_be_done=False):
            async with self._open().request(
                "GET", self._url(path, parameters), headers=headers, timeout=timeout, allow_redirects=False,
                read_bufsize=_PIECE_BYTES, **self._request_options,
            ) as answer:  # fmt: skip
                if answer.status != 200:
                    content = await answer.read()
                    if answer.status == 401:
                        await self._renew()  # for the next try
                    raise _refusal(answer, content)
                async for line in _lines(answer.content):
                    yield orjson.loads(line)

    # --- requests ---

    async def _list_pages(self, path: str, query: dict[str, str], shrink: Shrink | None) -> ObjectList:
        items: list[Object] = []
        while True:
            answer = await self._request("GET", path, query, None, "", urgent=False)
            _add_items(items, answer, shrink)
            more = answer["metadata"].get("continue")
            if not more:
                return ObjectList(items, answer["metadata"]["resourceVersion"])
            query["continue"] = more

    async def _request(
        self, method: str, path: str, query: dict[str, str], content: object, kind: str, urgent: bool
    ) -> Any:
        url = self._url(path, query)
        body = orjson.dumps(content) if content is not None else None
        if urgent:
            return await self._retry(method, url, body, kind)
        async with self._slots:
            if self._pacer is not None:
                await self._pacer.wait()
            # A waiting request keeps its slot: a busy server gets fewer requests.
            return await self._retry(method, url, body, kind)

    async def _retry(
        self, method: str, url: URL, body: bytes | None, kind: str, read: Callable[[bytes], Any] = orjson.loads
    ) -> Any:
        token_was_renewed = False
        for number in range(1, _MAX_TRIES + 1):
            try:
                return await self._try(method, url, body, kind, read)
            except ApiRefused as error:
                if error.status == 401 and not token_was_renewed and await self._renew():
                    token_was_renewed = True
                    continue
                pause_s = _pause_s(error, method)
                if pause_s is None or number == _MAX_TRIES:
                    raise
            await self._sleep(pause_s)
        raise AssertionError("the last try raises or returns")

    async def _try(self, method: str, url: URL, body: bytes | None, kind: str, read: Callable[[bytes], Any]) -> Any:
        headers = await self._headers(kind if body is not None else "")
        with _connection_errors(may_be_done=method != "GET"):
            async with self._open().request(
                method,
                url,
                data=body,
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
                **self._request_options,
            ) as answer:
                content = await answer.read()
        if answer.status >= 300:
            raise _refusal(answer, content)
        try:
            return read(content)
        except orjson.JSONDecodeError:
            raise ApiRefused(answer.status, "NotJSON", f"the answer to {method} {url.path} is not JSON") from None

    def _open(self) -> aiohttp.ClientSession:
        """Created with the first request, because it belongs to the running loop."""
        if self._session is None:
            # The slots limit requests; streams come on top of them.
            tls = self._access.tls()
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S, ssl=tls if tls is not None else True)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "gpusquad", "Accept": "application/json"},
                skip_auto_headers=("Accept-Encoding",),  # compression costs both sides more time than it saves on a LAN
                trust_env=False,
            )
        return self._session

    def _url(self, path: str, query: dict[str, str]) -> URL:
        url = f"{self._access.url}{path}"
        return URL(f"{url}?{urlencode(query)}" if query else url, encoded=True)

    async def _headers(self, kind: str) -> dict[str, str]:
        headers = {"Content-Type": kind} if kind else {}
        token = self._token()
        if token is None:
            await self._renew()
            token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _token(self) -> str | None:
        with _token_errors():
            return self._access.token.now()

    async def _renew(self) -> bool:
        """False: there is no newer token."""
        before = self._token()
        async with self._renewing:
            if self._token() != before:
                return True  # another request renewed it
            with _token_errors():
                return await asyncio.to_thread(self._access.token.renew)


class _Pacer:
    """Spaces requests evenly. After a pause, requests for a tenth of a second may go at once."""

    def __init__(self, per_second: float, sleep: Sleep) -> None:
        self._sleep = sleep
        self._each_s = 1.0 / per_second
        self._next_s = 0.0

    async def wait(self) -> None:
        now_s = time.monotonic()
        self._next_s = max(self._next_s, now_s - 0.1) + self._each_s
        if self._next_s > now_s:
            await self._sleep(self._next_s - now_s)


@contextlib.contextmanager
def _connection_errors(may_be_done: bool) -> Iterator[None]:
    """Maps all connection errors to ``ApiUnreachable``."""
    try:
        yield
    except aiohttp.ClientConnectorError as error:
        raise ApiUnreachable(str(error), may_be_done=False) from error
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ApiUnreachable(str(error) or "no answer in time", may_be_done) from error


@contextlib.contextmanager
def _token_errors() -> Iterator[None]:
    """A missing token is handled like an unreachable server: it may be available later."""
    try:
        yield
    except Invalid as error:
        raise ApiUnreachable(f"no token: {error}", may_be_done=False) from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length. An incomplete last line is dropped."""
    started: list[bytes] = []
    while piece := await content.readany():
        first, *rest = piece.split(b"\n")
        started.append(first)
        if not rest:
            continue
        rest.insert(0, b"".join(started))
        started = [rest.pop()]
        for line in rest:
            if line:
                yield line


def _add_items(items: list[Object], answer: Object, shrink: Shrink | None) -> None:
    """Adds kind and version, which a list leaves out and a watch does not."""
    kind, version = answer["kind"].removesuffix("List"), answer["apiVersion"]
    for item in answer["items"] or ():
        item.setdefault("kind", kind)
        item.setdefault("apiVersion", version)
        items.append(shrink(item) if shrink is not None else item)


def _pause_s(error: ApiRefused, method: str) -> float | None:
    """Seconds before a retry. None: a retry is pointless, or could repeat a change."""
    if error.retry_after_s is None or error.retry_after_s > _MAX_RETRY_AFTER_S:
        return None
    # A 429 with Retry-After is sent before the request is handled, so nothing was done.
    if error.status != 429 and (error.status < 500 or method == "POST"):
        return None
    return error.retry_after_s * random.uniform(1.0, 1.25)


def _refusal(answer: aiohttp.ClientResponse, content: bytes) -> ApiRefused:
    retry_after = answer.headers.get("Retry-After", "")
    retry_after_s = float(retry_after) if retry_after.isdecimal() else None
    status: Any = None
    with contextlib.suppress(orjson.JSONDecodeError):
        status = orjson.loads(content)
    if not isinstance(status, dict):
        return ApiRefused(answer.status, "", content[:300].decode(errors="replace").strip(), retry_after_s)
    return ApiRefused(answer.status, str(status.get("reason") or ""), str(status.get("message") or ""), retry_after_s)
