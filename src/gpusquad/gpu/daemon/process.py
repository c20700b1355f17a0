"""The card daemon as a process: the loop on the machine's clock, and the control socket."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import time
from collections.abc import Callable
from pathlib import Path

from gpusquad.gpu.daemon.control import Control
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.wire import address
from gpusquad.model.units import US_PER_S

_log = logging.getLogger(__name__)
_LONGEST_LINE = 1 << 20
_SOCKET_CHECK_US = US_PER_S
"""Interval of the check that the daemon's socket is still there."""


class Daemon:
    """Runs the loop and answers on the socket."""

    def __init__(
        self,
        squads: SquadLoop,
        control: Control,
        path: Path,
        idle_s: float = 0.0,
        still_here: Callable[[], object] = lambda: None,
    ) -> None:
        """``idle_s``: time without use after which it ends; 0: never. ``still_here``: called in each iteration."""
        self._squads, self._control, self._path, self._still_here = squads, control, path, still_here
        self._idle_us = int(idle_s * US_PER_S)
        self._needed_us = self._looked_us = self._spoken_us = self._found_us = now_us()
        self._selector = selectors.SelectSelector()  # the only one that waits for less than a millisecond
        self._heard: dict[socket.socket, bytes] = {}
        self._stopped = self.was_left = False
        self._bound: tuple[int, int] | None = None

    def run(self) -> None:
        """Run until ``stop``, or until it is no longer used."""
        with contextlib.closing(self._listen()) as server:
            self._selector.register(server, selectors.EVENT_READ)
            try:
                while not (self._stopped or self._control.is_stopped or self._is_over(now_us())):
                    self._still_here()
                    rest_us = self._squads.step(now_us())
                    for key, _ in self._selector.select(rest_us / 1e6):
                        self._serve(server, key.fileobj)  # type: ignore[arg-type]
            finally:
                for client in list(self._heard):
                    self._leave(client)
                if self._is_ours():
                    self._path.unlink()

    def stop(self, *_: object) -> None:
        self._stopped = True

    def _listen(self) -> socket.socket:
        self._path.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old = os.umask(0o177)  # only this user controls the card
        try:
            with address(self._path) as name:
                server.bind(name)
            self._bound = _file_of(self._path)
        finally:
            os.umask(old)
        server.listen()
        server.setblocking(False)
        return server

    def _is_over(self, now: int) -> bool:
        if now - self._found_us >= _SOCKET_CHECK_US:
            self._found_us = now
            if not self._is_ours():
                _log.warning("%s is gone, so this daemon cannot be reached; it ends", self._path)
                return True
        return self._is_left_alone(now)

    def _is_ours(self) -> bool:
        """False: the folder was removed, or another daemon started in it."""
        return self._bound is not None and _file_of(self._path) == self._bound

    def _is_left_alone(self, now: int) -> bool:
        """No client for ``idle_s``, or clients without processes and no request. Then it ends, so that an unused
        machine has no daemon. It is started again when needed."""
        if not self._idle_us or now - self._looked_us < self._idle_us // 10:
            return False
        self._looked_us = now
        clients = self._squads.clients()
        is_spoken_to = now - self._spoken_us < self._idle_us
        if clients and (is_spoken_to or self._squads.has_processes()):
            self._needed_us = now
        self.was_left = now - self._needed_us >= self._idle_us
        return self.was_left

    def _serve(self, server: socket.socket, ready: socket.socket) -> None:
        if ready is server:
            with contextlib.suppress(BlockingIOError):
                client, _ = server.accept()
                client.settimeout(1.0)  # for the answer: a peer that does not read it is closed
                self._heard[client] = b""
                self._selector.register(client, selectors.EVENT_READ)
            return
        try:
            data = ready.recv(65536)
            lines, rest = self._lines(self._heard[ready] + data)
            if not data or len(rest) > _LONGEST_LINE:
                self._leave(ready)
                return
            self._heard[ready] = rest
            self._spoken_us = now_us()
            for line in lines:
                ready.sendall(self._control.answer(line, now_us()).encode() + b"\n")
        except OSError:
            self._leave(ready)

    def _lines(self, data: bytes) -> tuple[list[str], bytes]:
        *lines, rest = data.split(b"\n")
        return [line.decode(errors="replace") for line in lines if line.strip()], rest

    def _leave(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        del self._heard[client]
        client.close()


def _file_of(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def now_us() -> int:
    """Time of the clock that the clients' processes use as well."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
