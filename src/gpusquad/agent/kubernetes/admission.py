"""Finds the container that the kubelet requests devices for.

The kubelet (read in 1.37) admits one pod at a time and lists it before it has devices. Its main loop adds a pod to the
known ones, admits it, and only then takes the next one. Its containers are served in order, init containers first.
While it waits for our answer it holds no lock that listing pods needs. So the pod is a listed one that requests our
resource and still lacks it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from gpusquad.agent.kubernetes.pod_cache import PodLister
from gpusquad.agent.kubernetes.pod_resources import ListedPod, PodResources
from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.kube.errors import ApiUnreachable


class AmbiguousContainer(Exception):
    """No container, or more than one, is a candidate."""


@dataclass(frozen=True, slots=True)
class PendingContainer:
    """A container that waits for its devices."""

    pod: Pod
    container: Container


class Admission:
    """Remembers served containers, because the kubelet does not list init containers."""

    def __init__(self, pods: PodLister, resources: PodResources) -> None:
        self._pods = pods
        self._resources = resources
        self._served: dict[str, set[str]] = {}
        self._refused: set[str] = set()
        self._lock = threading.Lock()

    def find_container(self, count: int) -> PendingContainer:
        """The container that ``count`` devices are for."""
        listed = self._resources.list()
        pending = self._confirmed(listed, self._waiting(listed, [self._cached(entry.key) for entry in listed]))
        if all(entry.pod.is_started for entry in pending):  # no new pod: the cache is too old
            by_key = {pod.key: pod for pod in self._pods.fetch_all()}
            pending = self._waiting(listed, [by_key.get(entry.key) for entry in listed])
        return _the_one(pending, count, self._refused)

    def served(self, pending: PendingContainer) -> None:
        with self._lock:
            self._served.setdefault(pending.pod.uid, set()).add(pending.container.name)

    def refused(self, pending: PendingContainer) -> None:
        """Kubelets before 1.34 list a refused pod a little longer. It will hardly request devices again."""
        with self._lock:
            self._refused = self._refused | {pending.pod.uid}

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Drops pods that are gone."""
        kept = set(uids)
        with self._lock:
            self._served = {uid: names for uid, names in self._served.items() if uid in kept}
            self._refused = self._refused & kept

    def _cached(self, key: str) -> Pod | None:
        return self._pods.get_cached(key) or self._pods.fetch(key)

    def _confirmed(self, listed: Sequence[ListedPod], found: Sequence[PendingContainer]) -> list[PendingContainer]:
        """Reads the pods again: another pod of the same name may have replaced a cached one."""
        keys = {pending.pod.key for pending in found}
        try:
            fresh = {key: self._pods.fetch(key) for key in keys}
        except ApiUnreachable:
            return list(found)  # the API server is unreachable: use the cache; reconciliation follows
        return self._waiting(
            [entry for entry in listed if entry.key in keys],
            [fresh[entry.key] for entry in listed if entry.key in keys],
        )

    def _waiting(self, listed: Sequence[ListedPod], pods: Sequence[Pod | None]) -> list[PendingContainer]:
        with self._lock:
            return [
                PendingContainer(pod, container)
                for entry, pod in zip(listed, pods, strict=True)
                if pod is not None
                and not pod.has_ended
                and (container := next_container(pod, entry, self._served.get(pod.uid, set()))) is not None
            ]


def next_container(pod: Pod, listed: ListedPod, served: Collection[str]) -> Container | None:
    """The first container without devices. None: all have them. ``served`` only matters for init containers, which are
    never listed. For the others the kubelet's list counts, also if it replaced a pod by one of the same name."""
    lacking = [
        container
        for container in pod.containers
        if container.name not in listed.slots and not (container.is_init and container.name in served)
    ]
    if lacking and all(container.is_init for container in lacking) and any(
        not container.is_init and container.name in listed.slots for container in pod.containers
    ):  # fmt: skip
        return None  # init containers come first, so they got theirs before the agent started
    return lacking[0] if lacking else None


def _the_one(pending: Sequence[PendingContainer], count: int, refused: Collection[str]) -> PendingContainer:
    """If several containers lack devices, prefers pods that have not started, were not refused and are not being
    deleted. The others lack them for other reasons (the kubelet lost its state, or refused the pod)."""
    found = [entry for entry in pending if entry.container.count == count]
    for is_likely in (
        lambda pod: not pod.is_started, lambda pod: pod.uid not in refused, lambda pod: not pod.is_leaving,
    ):  # fmt: skip
        if len(found) > 1:
            found = [entry for entry in found if is_likely(entry.pod)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise AmbiguousContainer(f"no pod on this node waits for {count} of these devices")
    names = ", ".join(sorted(entry.pod.key for entry in found))
    raise AmbiguousContainer(
        f"several pods wait for {count} of these devices, and the request does not name one: {names}"
    )
