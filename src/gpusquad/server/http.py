"""Runs the application with uvicorn, with bounds on the cost of a connection."""

from __future__ import annotations

import socket

import uvicorn
from fastapi import FastAPI

from gpusquad.server.wiring import Services

CONNECTIONS = 1000
KEEP_ALIVE_S = 30
STOP_S = 5
"""Time for open requests when the service stops."""


class HttpServer(uvicorn.Server):
    """Ends its streams before it stops, because they never end by themselves."""

    def __init__(self, app: FastAPI, services: Services, host: str, port: int) -> None:
        self._broadcast = services.broadcast
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # a client could claim to be local
                limit_concurrency=CONNECTIONS,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=STOP_S,
                ws="none",
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._broadcast.close()
        await super().shutdown(sockets)
