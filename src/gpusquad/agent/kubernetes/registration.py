"""Registers the device plugin with the kubelet, and again after each restart of the kubelet.

A starting kubelet deletes all sockets in its folder and creates its own again. Every registration uses a socket with a
new name, so that a kubelet that still knows the last one cannot confuse them.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc

from gpusquad.agent.kubernetes import messages
from gpusquad.agent.kubernetes.folder_events import FolderEvents
from gpusquad.agent.kubernetes.plugin import Plugin

PLUGINS = Path("/var/lib/kubelet/device-plugins")
KUBELET = "kubelet.sock"
VERSION = "v1beta1"
_OURS = "gpusquad-"
_CHECK_INTERVAL_S = 5.0
"""Events report restarts. The periodic check covers lost events."""
_PAUSE_S = 0.5
_CALL_S = 15.0
_THREADS = 8
_log = logging.getLogger(__name__)


@dataclass
class _RegisteredPlugin:
    plugin: Plugin
    server: grpc.Server
    socket: Path
    kubelet: tuple[int, int]
    """Identity of the kubelet's socket. A new socket may reuse the inode, but has another time."""

    def end(self) -> None:
        self.plugin.close()
        self.server.stop(grace=None)
        self.socket.unlink(missing_ok=True)


class Registration:
    """Keeps the plugin registered until it is stopped."""

    def __init__(self, make_plugin: Callable[[], Plugin], resource: str, folder: Path = PLUGINS,
                 on_registered: Callable[[], None] = lambda: None) -> None:  # fmt: skip
        self._make_plugin = make_plugin
        self._resource = resource
        self._folder = folder
        self._on_registered = on_registered
        self._registered: _RegisteredPlugin | None = None
        self._prefix = f"{_OURS}{resource.replace('/', '_')}-"
        self._ending = threading.Event()

    def run(self) -> None:
        """Returns after ``stop``."""
        self._remove_left_overs()
        while not self._ending.is_set():
            try:
                events = FolderEvents(self._folder)
            except OSError:  # there was no kubelet on this node yet
                self._ending.wait(_PAUSE_S)
                continue
            try:
                self._follow(events)
            finally:
                events.close()
        self._end()

    def stop(self) -> None:
        self._ending.set()

    def _follow(self, events: FolderEvents) -> None:
        while not self._ending.is_set():
            is_registered = self.check()
            self._wait(events, _CHECK_INTERVAL_S if is_registered else _PAUSE_S)
            if not self._folder.exists():
                return

    def _wait(self, events: FolderEvents, wait_s: float) -> None:
        """In short intervals, so that ``stop`` takes effect quickly."""
        while wait_s > 0 and not self._ending.is_set():
            if events.wait(min(wait_s, _PAUSE_S)):
                return
            wait_s -= _PAUSE_S

    def check(self) -> bool:
        """Registers if the kubelet has restarted. Returns whether the plugin is registered."""
        kubelet = _identity(self._folder / KUBELET)
        current = self._registered
        if current is not None and current.kubelet == kubelet and current.socket.exists():
            return True
        if kubelet is None:
            return False
        self._end()
        try:
            self._registered = self._begin(kubelet)
        except (grpc.RpcError, OSError, RuntimeError) as error:
            _log.warning("cannot register with the kubelet", extra={"why": str(error)})
            return False
        _log.info("registered", extra={"resource": self._resource, "socket": self._registered.socket.name})
        self._on_registered()
        return True

    def _begin(self, kubelet: tuple[int, int]) -> _RegisteredPlugin:
        """Starts the server first, because the kubelet calls back before it answers."""
        path = self._folder / f"{self._prefix}{secrets.token_hex(4)}.sock"
        plugin = self._make_plugin()
        server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="kubelet"))
        server.add_generic_rpc_handlers((plugin.handler(),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        registered = _RegisteredPlugin(plugin, server, path, kubelet)
        try:
            self._register(path.name)
        except BaseException:
            registered.end()
            raise
        return registered

    def _register(self, endpoint: str) -> None:
        request = messages.RegisterRequest(version=VERSION, endpoint=endpoint, resource_name=self._resource)
        request.options.get_preferred_allocation_available = True
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix:{self._folder / KUBELET}", options=options) as channel:
            channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=messages.RegisterRequest.SerializeToString,
                response_deserializer=messages.Empty.FromString,
            )(request, timeout=_CALL_S)

    def _end(self) -> None:
        if self._registered is not None:
            self._registered.end()
            self._registered = None

    def _remove_left_overs(self) -> None:
        """Removes sockets of agent processes that were killed."""
        for path in self._folder.glob(f"{self._prefix}*.sock"):
            if not _answers(path):
                path.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns)


def _answers(path: Path) -> bool:
    """A process listens on this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
