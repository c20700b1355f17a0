"""Identifies the caller before the body is read, and limits the rate of requests."""

from __future__ import annotations

from collections.abc import Collection

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from gpusquad.server.auth import CALLER, Auth, Caller, sent_token
from gpusquad.server.errors import RateLimited, Unauthenticated
from gpusquad.server.limits import Buckets


class Entrance:
    """Paths under ``prefix`` need a token, except the open ones. Elsewhere a token is read if there is one."""

    def __init__(
        self, app: ASGIApp, auth: Auth, known: Buckets, unknown: Buckets, prefix: str, open_paths: Collection[str]
    ) -> None:
        self._app = app
        self._auth = auth
        self._known = known
        self._unknown = unknown
        self._prefix = prefix
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope[CALLER] = await self._caller(scope)
        await self._app(scope, receive, send)

    async def _caller(self, scope: Scope) -> Caller | None:
        address = (scope.get("client") or ("?",))[0]
        token = sent_token(Headers(scope=scope))
        caller = await self._identify(token, address) if token else None
        if caller is None and scope["path"].startswith(self._prefix) and scope["path"] not in self._open_paths:
            _hold_back(self._unknown.take(address))
            raise Unauthenticated(
                "the token is invalid" if token else "no token of this service was sent",
                field="Authorization",
                cure="send the header Authorization: Bearer TOKEN",
            )
        # By user, not by token, so that more tokens do not allow more requests.
        _hold_back(self._known.take(f"user {caller.who.user}" if caller else f"address {address}"))
        return caller

    async def _identify(self, token: str, address: str) -> Caller | None:
        caller = self._auth.remembered(token)
        if caller is not None:
            return caller
        _hold_back(self._unknown.take(address))
        return await to_thread.run_sync(self._auth.identify, token)


def _hold_back(wait_s: float) -> None:
    if wait_s > 0:
        raise RateLimited("too many requests from one caller", wait_s)
