"""Pods of this node, kept up to date by a watch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from gpusquad.agent.kubernetes.api import KubeApi, Object
from gpusquad.agent.kubernetes.pods import Pod, read_pod
from gpusquad.kube.errors import ApiRefused, ApiUnreachable

_WATCH_S = 300
_PAUSE_S = 1.0
_NOT_FOUND = 404
_log = logging.getLogger(__name__)


class PodLister(Protocol):
    """Read access to the pods of this node."""

    has_heard: bool
    """All pods of the node were listed at least once. Before that the cache may be incomplete."""

    def known(self, key: str) -> Pod | None:
        """From the cache, by namespace/name."""
        ...

    def fresh(self, key: str) -> Pod | None:
        """From the API server. None: no such pod. Raises ApiUnreachable."""
        ...

    def all_fresh(self) -> list[Pod]:
        """All pods of this node, from the API server."""
        ...

    def all_known(self) -> list[Pod]: ...


class PodCache:
    """The cache is good enough for readings. Allocations use ``fresh``."""

    def __init__(self, api: KubeApi, node: str, resource: str, on_change: Callable[[], None] = lambda: None) -> None:
        self._api = api
        self._node = node
        self._resource = resource
        self._on_change = on_change
        self._pods: dict[str, Pod] = {}
        self._asked: dict[str, tuple[float, Pod]] = {}
        """Pods read since the last list started: they may be newer than that list."""
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self.has_heard = False

    def start(self) -> None:
        threading.Thread(target=self._follow, name="pods", daemon=True).start()

    def stop(self) -> None:
        self._ending.set()

    def known(self, key: str) -> Pod | None:
        with self._lock:
            return self._pods.get(key)

    def all_known(self) -> list[Pod]:
        with self._lock:
            return list(self._pods.values())

    def fresh(self, key: str) -> Pod | None:
        began_s = time.monotonic()
        namespace, _, name = key.partition("/")
        try:
            pod = read_pod(self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}"), self._resource)
        except ApiRefused as error:
            if error.status != _NOT_FOUND:
                raise ApiUnreachable(str(error)) from error
            pod = None
        with self._lock:
            self._set(key, pod)
            if pod is not None:
                self._asked[key] = (began_s, pod)
        return pod

    def all_fresh(self) -> list[Pod]:
        try:
            self._list()
        except ApiRefused as error:
            raise ApiUnreachable(str(error)) from error
        return self.all_known()

    def _follow(self) -> None:
        version = ""
        while not self._ending.is_set():
            try:
                version = version or self._list()
                version = self._watch(version)
            except (ApiRefused, ApiUnreachable) as error:
                _log.warning("cannot read the pods of this node: %s", error)
                version = ""
                self._ending.wait(_PAUSE_S)

    def _list(self) -> str:
        began_s = time.monotonic()
        listed = self._api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={self._node}")
        found = [read_pod(item, self._resource) for item in listed["items"]]
        with self._lock:
            self._asked = {key: entry for key, entry in self._asked.items() if entry[0] >= began_s}
            self._pods = {**{pod.key: pod for pod in found}, **{key: pod for key, (_, pod) in self._asked.items()}}
            self.has_heard = True
        self._on_change()
        return listed["metadata"]["resourceVersion"]

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
            if event["type"] != "DELETED":
                self._set(pod.key, pod)
            elif (known := self._pods.get(pod.key)) is not None and known.uid == pod.uid:
                self._set(pod.key, None)
        self._on_change()

    def _set(self, key: str, pod: Pod | None) -> None:
        if pod is None:
            self._pods.pop(key, None)
            self._asked.pop(key, None)
        else:
            self._pods[key] = pod
