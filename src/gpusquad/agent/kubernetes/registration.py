"""Being known to the kubelet: a socket of our own to be asked at, and one call that names it; again after each restart.

A kubelet that starts deletes all sockets of its folder and makes its own anew. Every conversation has a socket with a
new name, so that a kubelet which still remembers the last one cannot mistake them for one.
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
_LOOK_S = 5.0
"""Events tell of restarts; looking as well finds what an event was lost for."""
_PAUSE_S = 0.5
_CALL_S = 15.0
_THREADS = 8
_log = logging.getLogger(__name__)


@dataclass
class _Conversation:
    plugin: Plugin
    server: grpc.Server
    socket: Path
    kubelet: tuple[int, int]
    """Which socket of the kubelet's it is: a new one may have the inode of the old, but not its time."""

    def end(self) -> None:
        self.plugin.close()
        self.server.stop(grace=None)
        self.socket.unlink(missing_ok=True)


class Registration:
    """Keeps one conversation going until it is stopped."""

    def __init__(self, make_plugin: Callable[[], Plugin], resource: str, folder: Path = PLUGINS,
                 on_registered: Callable[[], None] = lambda: None) -> None:  # fmt: skip
        self._make_plugin = make_plugin
        self._resource = resource
        self._folder = folder
        self._on_registered = on_registered
        self._conversation: _Conversation | None = None
        self._prefix = f"{_OURS}{resource.replace('/', '_')}-"
        self._ending = threading.Event()

    def run(self) -> None:
        """Until ``stop``."""
        self._remove_left_overs()
        while not self._ending.is_set():
            try:
                events = FolderEvents(self._folder)
            except OSError:  # no kubelet was ever here
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
            is_well = self.look()
            self._wait(events, _LOOK_S if is_well else _PAUSE_S)
            if not self._folder.exists():
                return

    def _wait(self, events: FolderEvents, wait_s: float) -> None:
        """In small parts, so that stopping takes no longer than one."""
        while wait_s > 0 and not self._ending.is_set():
            if events.wait(min(wait_s, _PAUSE_S)):
                return
            wait_s -= _PAUSE_S

    def look(self) -> bool:
        """Registers where the kubelet is another than the one we speak with. Whether all is well."""
        kubelet = _identity(self._folder / KUBELET)
        current = self._conversation
        if current is not None and current.kubelet == kubelet and current.socket.exists():
            return True
        if kubelet is None:
            return False
        self._end()
        try:
            self._conversation = self._begin(kubelet)
        except (grpc.RpcError, OSError, RuntimeError) as error:
            _log.warning("the kubelet does not take us", extra={"why": str(error)})
            return False
        _log.info("registered", extra={"resource": self._resource, "socket": self._conversation.socket.name})
        self._on_registered()
        return True

    def _begin(self, kubelet: tuple[int, int]) -> _Conversation:
        """Serves first: the kubelet calls back before it answers."""
        path = self._folder / f"{self._prefix}{secrets.token_hex(4)}.sock"
        plugin = self._make_plugin()
        server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="kubelet"))
        server.add_generic_rpc_handlers((plugin.handler(),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        conversation = _Conversation(plugin, server, path, kubelet)
        try:
            self._register(path.name)
        except BaseException:
            conversation.end()
            raise
        return conversation

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
        if self._conversation is not None:
            self._conversation.end()
            self._conversation = None

    def _remove_left_overs(self) -> None:
        """Sockets of ours whose process was killed."""
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
    """Whether somebody listens on this socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
