"""Answers every error of the inner layers in the API's form."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpusquad.server.api_errors import answer_for

_log = logging.getLogger("gpusquad.server")


class Failures:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        has_begun = False

        async def noting_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = has_begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except Exception as error:
            if has_begun:  # a partial answer cannot be withdrawn, so the connection is cut
                _log.error("answer cut off", exc_info=error)
                raise
            await answer_for(error)(scope, receive, send)
