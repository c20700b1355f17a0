"""Requests over one connection that is kept open."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from gpusquad.client.answers import error_of, json_of, skew_of
from gpusquad.client.errors import ApiError, ServiceUnreachable
from gpusquad.model.errors import Invalid

API = ("api", "v1")
CONNECT_S = 5.0
ANSWER_S = 60.0
TRIES = 3
MAX_TIMEOUT_S = 5.0
"""If the service asks to wait longer, the request is not retried."""
FRESH_S = 1.0
"""A service may close a connection that was idle longer, so only repeatable requests use such a one."""

_CAN_BE_REPEATED = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_BUSY = "it may be busy or unreachable, and may still carry out the request: check before you retry"
_BROKEN = (OSError, http.client.HTTPException)

Query = Mapping[str, Any]


class Stream:
    """A streaming answer."""

    def __init__(self, connection: http.client.HTTPConnection, sock: Any, response: http.client.HTTPResponse) -> None:
        self._connection, self._sock, self._response = connection, sock, response

    def blocks(self, patience_s: Callable[[], float]) -> Iterator[bytes]:
        """Lines as they come. TimeoutError after ``patience_s()``, evaluated for each line."""
        while True:
            self._sock.settimeout(max(0.001, patience_s()))
            block = self._response.read1(1 << 16)
            if not block:
                return
            yield block

    def close(self) -> None:
        self._response.close()
        self._connection.close()


class Http:
    """Connection to one service."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        connect_s: float = CONNECT_S,
        answer_s: float = ANSWER_S,
        tries: int = TRIES,
        cure: str = "",
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._parts = _checked(self.url)
        self._headers = {"Accept": "application/json", "User-Agent": "gpusquad"} | _bearer(token)
        self._connect_s, self._answer_s, self._tries = connect_s, answer_s, tries
        self._cure = cure
        self.pause = pause
        self._kept: http.client.HTTPConnection | None = None
        self._used_at = 0.0
        self._skew_s = 0.0

    # -- one method per kind of request --------------------------------------------------------------------------------

    def get(self, *path: str, query: Query | None = None) -> Any:
        return self.call("GET", path, query=query)

    def post(self, *path: str, body: Any = None, key: str = "") -> Any:
        """``key`` makes it safe to send twice: equal keys get the same answer."""
        return self.call("POST", path, body={} if body is None else body, key=key)

    def put(self, *path: str, body: Any, query: Query | None = None) -> Any:
        return self.call("PUT", path, query=query, body=body)

    def patch(self, *path: str, body: Any) -> Any:
        return self.call("PATCH", path, body=body)

    def delete(self, *path: str, query: Query | None = None) -> Any:
        return self.call("DELETE", path, query=query)

    # -- what they share -----------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: Sequence[str],
        *,
        query: Query | None = None,
        body: Any = None,
        key: str = "",
        prefix: Sequence[str] = API,
    ) -> Any:
        """The answer as plain data. Repeated after a broken connection only if that is safe."""
        target = self.target((*prefix, *path), query)
        headers, data = self._headers, None
        if body is not None:
            headers, data = headers | {"Content-Type": "application/json"}, json.dumps(body).encode()
        if key:
            headers = headers | {"Idempotency-Key": key}
        if method not in _CAN_BE_REPEATED and not key:
            return self._once(method, target, data, headers, fresh=True)
        return self._repeated(method, target, data, headers)

    def stream(self, path: Sequence[str], query: Query | None, headers: Mapping[str, str]) -> Stream:
        """A streaming answer over its own connection."""
        connection = None
        try:
            connection = self._connect(self._answer_s)
            sock = connection.sock
            connection.request("GET", self.target((*API, *path), query), headers=self._headers | dict(headers))
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise error_of(response.status, response.headers, response.read(), self.url)
        except (*_BROKEN, ApiError) as error:
            if connection is not None:
                connection.close()
            raise error if isinstance(error, ApiError) else self._unreachable(error) from error
        return Stream(connection, sock, response)

    def target(self, path: Sequence[str], query: Query | None = None) -> str:
        """Path and query of a request, with every part encoded."""
        parts = "/".join(_encoded(part) for part in path)
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return f"{self._parts.path}/{parts}" + (f"?{urlencode(given, doseq=True)}" if given else "")

    def now_s(self) -> float:
        """The service's clock if it clearly differs from ours; relative times use it."""
        return time.time() + self._skew_s

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _repeated(self, method: str, target: str, data: bytes | None, headers: dict[str, str]) -> Any:
        for left in reversed(range(self._tries)):
            try:
                return self._once(method, target, data, headers)
            except ApiError as error:
                if method == "DELETE" and error.status == http.client.NOT_FOUND and left < self._tries - 1:
                    return None  # an earlier attempt succeeded, and its answer was lost
                wait_s = 0.2 if error.retry_after_s is None else error.retry_after_s
                if not left or not error.may_pass or _is_hopeless(error) or wait_s > MAX_TIMEOUT_S:
                    raise
                self.pause(wait_s)
        raise AssertionError("unreachable")

    def _once(self, method: str, target: str, data: bytes | None, headers: dict[str, str], fresh: bool = False) -> Any:
        if fresh and time.monotonic() - self._used_at > FRESH_S:
            self.close()
        try:
            connection = self._kept = self._kept or self._connect(self._answer_s)
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            body = response.read()
        except _BROKEN as error:
            self.close()
            raise self._unreachable(error) from error
        except BaseException:  # interrupted: the rest of the answer must not be read as the next one
            self.close()
            raise
        self._used_at = time.monotonic()
        if response.will_close:
            self.close()
        self._skew_s = skew_of(response.headers, time.time())
        if response.status >= http.client.MULTIPLE_CHOICES:
            raise error_of(response.status, response.headers, body, self.url)
        return json_of(response.status, body, self.url)

    def _connect(self, answer_s: float) -> http.client.HTTPConnection:
        of = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = of(self._parts.hostname or "", self._parts.port, timeout=self._connect_s)
        connection.connect()
        connection.sock.settimeout(answer_s)
        return connection

    def _unreachable(self, error: BaseException) -> ServiceUnreachable:
        if isinstance(error, ConnectionRefusedError):
            return ServiceUnreachable(f"no gpusquad service answers at {self.url}", self._cure)
        if isinstance(error, TimeoutError):
            return ServiceUnreachable(f"{self.url}: did not answer in time", _BUSY)
        return ServiceUnreachable(f"{self.url}: {_reason(error)}", self._cure)


def _is_hopeless(error: ApiError) -> bool:
    """Refused or timed out: an immediate retry does not help, and the user waits."""
    return isinstance(error.__cause__, (ConnectionRefusedError, TimeoutError, socket.gaierror))


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error)
    return text or "the connection broke"


def _encoded(part: str) -> str:
    if not part or part in (".", ".."):  # these would name another endpoint
        raise Invalid("name", f"is not a valid name: {part!r}")
    return quote(part, safe="")


def _bearer(token: str) -> dict[str, str]:
    if not token:
        return {}
    if not (token.isascii() and token.isprintable()):
        raise Invalid("token", "contains invalid characters", "check GPUSQUAD_TOKEN")
    return {"Authorization": f"Bearer {token}"}


def _checked(url: str):
    cure = "for example http://127.0.0.1:7070"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise Invalid("url", f"{url!r}: {error}", cure) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid("url", f"is not the address of a service: {url!r}", cure)
    return parts
