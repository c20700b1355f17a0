"""Refuses requests for other host names, so that a web page cannot reach this service through its own name (DNS
rebinding)."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gpusquad.server.errors import Forbidden

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Hosts:
    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = LOOPBACK | {name.lower().rstrip(".") for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_ours(Headers(scope=scope)):
            raise Forbidden(
                "this service does not have that host name",
                field="Host",
                cure="use its own name, or add the name to its configuration",
            )
        await self._app(scope, receive, send)

    def _is_ours(self, headers: Headers) -> bool:
        given = headers.getlist("host")
        return len(given) == 1 and without_port(given[0]).lower().rstrip(".") in self._names


def without_port(host: str) -> str:
    """``name:8080`` to ``name``; an IPv6 address keeps its brackets."""
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.partition(":")[0]
