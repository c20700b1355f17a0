"""Authenticates agents and limits their rate before the body is read."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpusquad.server.agent_auth import NODE, AgentAuth, agent_token
from gpusquad.server.errors import RateLimited
from gpusquad.server.limits import Buckets


class AgentEntrance:
    """For one path only; all others have passed the authentication of users."""

    def __init__(self, app: ASGIApp, auth: AgentAuth, path: str, nodes: Buckets, unknown: Buckets,
                 count: Callable[[bool], None]) -> None:  # fmt: skip
        self._app = app
        self._auth = auth
        self._path = path
        self._nodes = nodes
        self._unknown = unknown
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            return await self._app(scope, receive, send)
        is_taken = False

        async def noting_send(message: Message) -> None:
            nonlocal is_taken
            if message["type"] == "http.response.start":
                is_taken = message["status"] < 300
            await send(message)

        try:
            scope[NODE] = await self._node(scope)
            await self._app(scope, receive, noting_send)
        finally:
            self._count(is_taken)

    async def _node(self, scope: Scope) -> str:
        token = agent_token(Headers(scope=scope))
        reviewed = self._auth.remembered(token)
        if reviewed is None:
            _hold_back(self._unknown.take((scope.get("client") or ("?",))[0]))
            reviewed = await to_thread.run_sync(self._auth.identify, token)
        node = self._auth.node_of(reviewed)
        _hold_back(self._nodes.take(node))
        return node


def _hold_back(wait_s: float) -> None:
    if wait_s > 0:
        raise RateLimited("too many reports from one node", wait_s)
