"""Sees each pod being bound and notes when, in a process of its own, with as little work as the API server allows.

The watch asks for pods that have a node, and of those for the metadata only: a pod that gets a node comes into view
exactly once, as ADDED, whatever happens to it later. Nothing is parsed but the name and the version.
"""

from __future__ import annotations

import http.client
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Self
from urllib.parse import urlencode

from bench.kubernetes.usage import Usage
from bench.kubernetes.wire import ApiServer

BOUND = "/api/v1/namespaces/default/pods?" + urlencode({"watch": "true", "fieldSelector": "spec.nodeName!="})
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
ADDED = b'{"type":"ADDED"'
NAME = b'"name":"'
VERSION = b'"resourceVersion":"'
STALLED_S = 120.0
"""So long without any binding: no more will come."""
TOLD_EVERY_S = 0.25
READ_BYTES = 1 << 18


@dataclass(frozen=True)
class BoundPods:
    """When which pod was bound, by the clock that all processes share (``time.monotonic``)."""

    at_s: dict[str, float]
    usage: Usage | None = None
    """Of the watcher itself."""

    @property
    def span_s(self) -> float:
        return max(self.at_s.values()) - min(self.at_s.values()) if self.at_s else 0.0


class Watcher:
    """``with Watcher(door, 100) as watcher`` sees from the beginning of the block; ``wait`` is for the last binding."""

    def __init__(self, server: ApiServer, expected: int) -> None:
        self._told, self._tells = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=_watch, args=(server, expected, self._tells), daemon=True
        )

    def __enter__(self) -> Self:
        self._process.start()
        self._tells.close()  # owned by the watcher; if it dies, the reader gets an end of file
        assert self._told.recv() == 0  # it watches
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def wait(self, progress: Callable[[int], object]) -> BoundPods:
        """Until all are bound, or none has been for a while."""
        while not isinstance(told := self._told.recv(), BoundPods):
            progress(told)
        progress(len(told.at_s))
        return told


def _watch(server: ApiServer, expected: int, told: Connection) -> None:
    at_s: dict[str, float] = {}
    tell_s = 0.0
    for line, now_s in _events(server, lambda: told.send(len(at_s))):
        if line.startswith(ADDED):
            at_s.setdefault(value_in(line, NAME), now_s)
            if len(at_s) >= expected:
                break
        if now_s > tell_s:
            told.send(len(at_s))
            tell_s = now_s + TOLD_EVERY_S
    told.send(BoundPods(at_s, Usage.of_self()))


def _events(server: ApiServer, begun: Callable[[], object]) -> Iterator[tuple[bytes, float]]:
    """Until none comes any more. A busy API server drops watchers that it could not serve at once: they come back, and
    go on where they were."""
    version = ""
    headers = {"Authorization": f"Bearer {server.token}", "Accept": METADATA_ONLY}
    while True:
        connection = http.client.HTTPSConnection(*server.address, context=server.tls(), timeout=STALLED_S)
        connection.request("GET", BOUND + (f"&resourceVersion={version}" if version else ""), headers=headers)
        stream = connection.getresponse()
        assert stream.status == 200, stream.read()
        begun()
        try:
            for line, now_s in _lines(stream):
                version = value_in(line, VERSION)
                yield line, now_s
        except TimeoutError:
            return


def _lines(stream: http.client.HTTPResponse) -> Iterator[tuple[bytes, float]]:
    """Each with the instant at which its last byte was there."""
    rest = b""
    while data := stream.read1(READ_BYTES):
        now_s = time.monotonic()
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line, now_s


def value_in(event: bytes, key: bytes) -> str:
    """Of the first such key: the object's own metadata come first."""
    begin = event.index(key) + len(key)
    return event[begin : event.index(b'"', begin)].decode()
