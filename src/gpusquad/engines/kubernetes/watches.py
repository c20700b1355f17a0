"""All watches of the engine. They feed the gang registry and the cluster observer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.reflector import OnChange, Reflector
from gpusquad.engines.kubernetes.filters.storage import Section
from gpusquad.engines.kubernetes.gangs.pod_gang import is_over, node_name
from gpusquad.engines.kubernetes.gangs.registry import GangRegistry
from gpusquad.engines.kubernetes.lookups import Lookups
from gpusquad.engines.kubernetes.nodes.observer import ClusterObserver
from gpusquad.engines.kubernetes.pruning import shrink_node, shrink_other, shrink_pod
from gpusquad.kube.objects import Object, labels_of, name_of, namespace_of, uid_of

_STORAGE: dict[Section, str] = {
    "claims": "/api/v1/persistentvolumeclaims",
    "volumes": "/api/v1/persistentvolumes",
    "classes": "/apis/storage.k8s.io/v1/storageclasses",
    "csi_nodes": "/apis/storage.k8s.io/v1/csinodes",
    "csi_drivers": "/apis/storage.k8s.io/v1/csidrivers",
    "attachments": "/apis/storage.k8s.io/v1/volumeattachments",
}


class ClusterWatches:
    """``changed`` is called after every change that may concern the service."""

    def __init__(
        self,
        api: AsyncKubeApi,
        registry: GangRegistry,
        observer: ClusterObserver,
        lookups: Lookups,
        scheduler: str,
        changed: Callable[[], None],
    ) -> None:
        self._registry = registry
        self._observer = observer
        self._lookups = lookups
        self._scheduler = scheduler
        self._changed = changed
        self.pods = Reflector(api, "/api/v1/pods", on_change=self._pod, shrink=shrink_pod)
        self.nodes = Reflector(api, "/api/v1/nodes", on_change=self._node, shrink=shrink_node)
        self._others = [
            Reflector(api, "/api/v1/namespaces", on_change=self._namespace, shrink=shrink_other),
            *(
                Reflector(api, path, on_change=self._storage_listener(section), shrink=shrink_other)
                for section, path in _STORAGE.items()
            ),
        ]
        self._ours: dict[str, Object] = {}

    @property
    def all(self) -> list[Reflector]:
        """Objects that decide about pods come before the pods."""
        return [*self._others, self.nodes, self.pods]

    async def synced(self) -> None:
        await asyncio.gather(*(reflector.synced.wait() for reflector in self.all))

    def reparse(self, uids: set[str]) -> None:
        """The owners or groups of these pods have changed."""
        for uid in sorted(uids & self._ours.keys()):
            self._parse(self._ours[uid])
        self._changed()

    def ours(self, uid: str) -> Object | None:
        """A pod of this scheduler as last seen."""
        return self._ours.get(uid)

    def _pod(self, change: str, pod: Object, before: Object | None) -> None:
        node_before = node_name(before) if before is not None and not is_over(before) else ""
        is_there = change != "deleted" and not is_over(pod)
        node = node_name(pod) if is_there else ""
        self._index(is_there, pod)
        if pod["spec"].get("schedulerName") == self._scheduler:
            self._ours_changed(change, pod)
        if node_before and node_before != node:
            self._observer.pod_off(pod, node_before)
        if node:
            self._observer.pod_on(pod, node)
        self._changed()

    def _index(self, is_there: bool, pod: Object) -> None:
        """Pending pods too: their anti-affinity may match other pods, whose rules then have to be built again."""
        index = self._observer.index
        before = index.version
        new_terms = index.put(pod) if is_there else index.remove(pod)
        for other in self._ours.values() if new_terms else ():
            namespace = index.namespaces.get(namespace_of(other))
            if any(term.matches(labels_of(other), namespace_of(other), namespace) for term in new_terms or ()):
                self._parse(other)
        if index.version != before:
            self._observer.live_changed()

    def _ours_changed(self, change: str, pod: Object) -> None:
        uid = uid_of(pod)
        if change == "deleted":
            self._ours.pop(uid, None)
            self._lookups.forget(uid)
            self._registry.gone(pod)
        else:
            self._ours[uid] = pod
            self._parse(pod)

    def _parse(self, pod: Object) -> None:
        self._lookups.reading_for = uid_of(pod)
        self._registry.seen(pod)

    def _node(self, change: str, node: Object, before: Object | None) -> None:
        if change == "deleted":
            self._observer.node_gone(name_of(node))
            self._registry.node_gone(name_of(node))
        else:
            self._observer.node_seen(node)
        self._changed()

    def _namespace(self, change: str, item: Object, before: Object | None) -> None:
        index = self._observer.index
        version = index.namespaces_version
        index.put_namespace(name_of(item), None if change == "deleted" else labels_of(item))
        if index.namespaces_version != version and index.selects_namespaces:
            for pod in [pod for pod in self._ours.values() if namespace_of(pod) == name_of(item)]:
                self._parse(pod)  # other anti-affinity may match it
        self._observer.live_changed()
        self._changed()

    def _storage_listener(self, section: Section) -> OnChange:
        def on_change(change: str, item: Object, before: Object | None) -> None:
            if change == "deleted":
                self._observer.storage.drop(section, item)
            else:
                self._observer.storage.put(section, item)
            self._observer.live_changed()
            self._changed()

        return on_change
