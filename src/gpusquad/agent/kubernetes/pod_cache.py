"""Pods of this node, kept up to date by a watch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from gpusquad.agent.kubernetes.api import KubeApi, Object
from gpusquad.agent.kubernetes.pods import Pod, read_pod
from gpusquad.kube.errors import ApiRefused, ApiUnreachable

_WATCH_S = 300
_PAUSE_S = 1.0
_NOT_FOUND = 404
_log = logging.getLogger(__name__)


class PodLister(Protocol):
    """Read access to the pods of this node. Pods are identified by their key, namespace/name."""

    has_listed: bool
    """All pods of the node were listed at least once. Before that the cache may be incomplete."""

    def get_cached(self, key: str) -> Pod | None:
        """The pod as the cache has it. None: the cache does not have it."""
        ...

    def list_cached(self) -> list[Pod]:
        """All pods that the cache has."""
        ...

    def fetch(self, key: str) -> Pod | None:
        """Read the pod from the API server. None: no such pod. Raises ApiUnreachable."""
        ...

    def fetch_all(self) -> list[Pod]:
        """Read all pods of this node from the API server. Raises ApiUnreachable."""
        ...


class PodCache:
    """Follows the pods of one node in a thread.

    The cache is good enough for readings. Allocations use ``fetch`` and ``fetch_all``, which update the cache too.
    Their responses may be older than an event that the watch has delivered meanwhile. The watch does not repeat
    events, so the event takes precedence in the cache.
    """

    def __init__(self, api: KubeApi, node: str, resource: str, on_change: Callable[[], None] = lambda: None) -> None:
        self._api = api
        self._node = node
        self._resource = resource
        self._on_change = on_change
        self._pods: dict[str, Pod] = {}
        self._fetched: dict[str, tuple[float, Pod]] = {}
        """Single pods fetched since the last list started, with the start of the request: they may be newer than that
        list."""
        self._recorders: list[dict[str, Pod | None]] = []
        """One for each request in progress, see ``_changes_meanwhile``."""
        self._lock = threading.Lock()
        self._list_lock = threading.Lock()
        """Held during a list, so that lists update the cache in the order in which the API server made them."""
        self._ending = threading.Event()
        self.has_listed = False

    def start(self) -> None:
        threading.Thread(target=self._follow, name="pods", daemon=True).start()

    def stop(self) -> None:
        self._ending.set()

    def get_cached(self, key: str) -> Pod | None:
        with self._lock:
            return self._pods.get(key)

    def list_cached(self) -> list[Pod]:
        with self._lock:
            return list(self._pods.values())

    def fetch(self, key: str) -> Pod | None:
        began_s = time.monotonic()
        namespace, _, name = key.partition("/")
        with self._changes_meanwhile() as changes:
            try:
                pod = read_pod(self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}"), self._resource)
            except ApiRefused as error:
                if error.status != _NOT_FOUND:
                    raise ApiUnreachable(str(error)) from error
                pod = None
            with self._lock:
                if key not in changes:
                    self._set(key, pod)
                    if pod is not None:
                        self._fetched[key] = (began_s, pod)
        return pod

    def fetch_all(self) -> list[Pod]:
        try:
            return self._list()[0]
        except ApiRefused as error:
            raise ApiUnreachable(str(error)) from error

    def _follow(self) -> None:
        version = ""
        while not self._ending.is_set():
            try:
                version = version or self._list()[1]
                version = self._watch(version)
            except (ApiRefused, ApiUnreachable) as error:
                _log.warning("cannot read the pods of this node: %s", error)
                version = ""
                self._ending.wait(_PAUSE_S)

    def _list(self) -> tuple[list[Pod], str]:
        """The pods of the node, and the version to watch from."""
        with self._list_lock, self._changes_meanwhile() as changes:
            began_s = time.monotonic()
            listed = self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self._node}")
            pods = {pod.key: pod for pod in (read_pod(item, self._resource) for item in listed["items"])}
            with self._lock:
                self._fetched = {key: entry for key, entry in self._fetched.items() if entry[0] >= began_s}
                pods |= {key: pod for key, (_, pod) in self._fetched.items()}
                current = {**dict.fromkeys(self._pods), **pods, **changes}
                self._record(current)
                self._pods = {key: pod for key, pod in current.items() if pod is not None}
                self.has_listed = True
        self._on_change()
        return list(pods.values()), listed["metadata"]["resourceVersion"]

    def _watch(self, version: str) -> str:
        """The version to continue from; empty: list again."""
        for event in self._api.watch("/api/v1/pods", version, _WATCH_S, fieldSelector=f"spec.nodeName={self._node}"):
            if self._ending.is_set() or event["type"] == "ERROR":
                return ""
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self._apply(event)
        return version

    def _apply(self, event: Object) -> None:
        pod = read_pod(event["object"], self._resource)
        with self._lock:
            cached = self._pods.get(pod.key)
            if event["type"] != "DELETED":
                self._set(pod.key, pod)
                self._record({pod.key: pod})
            elif cached is None or cached.uid == pod.uid:  # otherwise another pod of the same name has replaced it
                self._set(pod.key, None)
                self._record({pod.key: None})
        self._on_change()

    @contextmanager
    def _changes_meanwhile(self) -> Iterator[dict[str, Pod | None]]:
        """Pods that watch events and lists change in the cache while the block runs, by key. None: deleted."""
        changes: dict[str, Pod | None] = {}
        with self._lock:
            self._recorders.append(changes)
        try:
            yield changes
        finally:
            with self._lock:
                self._recorders = [each for each in self._recorders if each is not changes]

    def _record(self, changes: dict[str, Pod | None]) -> None:
        """The caller holds the lock."""
        for recorder in self._recorders:
            recorder |= changes

    def _set(self, key: str, pod: Pod | None) -> None:
        """The caller holds the lock."""
        if pod is None:
            self._pods.pop(key, None)
            self._fetched.pop(key, None)
        else:
            self._pods[key] = pod
