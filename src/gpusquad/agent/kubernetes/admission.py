"""Whom the kubelet is asking for: it admits one pod at a time, and lists that pod before it has devices.

How the kubelet does it (read in 1.37): its main loop adds a pod to those it knows, admits it, and only then takes the
next one; inside, containers are served in order, those that only initialise first. While our answer is awaited no lock
is held that listing pods needs. So a listed pod that asks for our resource and still lacks it is the one.
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
    """Nobody, or more than one, can be meant."""


@dataclass(frozen=True, slots=True)
class PendingContainer:
    """A container that waits for its devices."""

    pod: Pod
    container: Container


class Admission:
    """Finds who is asking. Remembers who was served, since the kubelet does not list containers that initialise."""

    def __init__(self, pods: PodLister, resources: PodResources) -> None:
        self._pods = pods
        self._resources = resources
        self._served: dict[str, set[str]] = {}
        self._refused: set[str] = set()
        self._lock = threading.Lock()

    def who(self, count: int) -> PendingContainer:
        """The container that so many devices are for."""
        listed = self._resources.list()
        asking = self._confirmed(listed, self._waiting(listed, [self._heard_of(entry.key) for entry in listed]))
        if all(entry.pod.is_started for entry in asking):  # nobody new: what we last heard of is too old
            by_key = {pod.key: pod for pod in self._pods.all_fresh()}
            asking = self._waiting(listed, [by_key.get(entry.key) for entry in listed])
        return _the_one(asking, count, self._refused)

    def served(self, asking: PendingContainer) -> None:
        with self._lock:
            self._served.setdefault(asking.pod.uid, set()).add(asking.container.name)

    def refused(self, asking: PendingContainer) -> None:
        """Kubelets before 1.34 list a pod that was refused a little longer; it will hardly ask again."""
        with self._lock:
            self._refused = self._refused | {asking.pod.uid}

    def forget_all_but(self, uids: Iterable[str]) -> None:
        """Of pods that are gone nothing has to be remembered."""
        kept = set(uids)
        with self._lock:
            self._served = {uid: names for uid, names in self._served.items() if uid in kept}
            self._refused = self._refused & kept

    def _heard_of(self, key: str) -> Pod | None:
        return self._pods.known(key) or self._pods.fresh(key)

    def _confirmed(self, listed: Sequence[ListedPod], found: Sequence[PendingContainer]) -> list[PendingContainer]:
        """As they are now: a pod of the same name may have come in the place of the one that we heard of."""
        keys = {asking.pod.key for asking in found}
        try:
            fresh = {key: self._pods.fresh(key) for key in keys}
        except ApiUnreachable:
            return list(found)  # the API server is away; what it said last is all there is, and reconciling follows
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
    """The first that still lacks devices. None: all have them. Of who was served only those count that are never
    listed: what the kubelet tells of the others is the truth, also where it dropped a pod for one of the same name."""
    lacking = [
        container
        for container in pod.containers
        if container.name not in listed.slots and not (container.is_init and container.name in served)
    ]
    if lacking and all(container.is_init for container in lacking) and any(
        not container.is_init and container.name in listed.slots for container in pod.containers
    ):  # fmt: skip
        return None  # those come first, so they had theirs before we were started
    return lacking[0] if lacking else None


def _the_one(asking: Sequence[PendingContainer], count: int, refused: Collection[str]) -> PendingContainer:
    """Where several lack devices, not all can be the one: a pod that runs, or that is on its way out, lacks them for
    other reasons (the kubelet lost its notes, or refused it)."""
    found = [entry for entry in asking if entry.container.count == count]
    for is_likely in (
        lambda pod: not pod.is_started, lambda pod: pod.uid not in refused, lambda pod: not pod.is_leaving,
    ):  # fmt: skip
        if len(found) > 1:
            found = [entry for entry in found if is_likely(entry.pod)] or found
    if len(found) == 1:
        return found[0]
    if not found:
        raise AmbiguousContainer(f"no pod of this node waits for {count} of these devices")
    names = ", ".join(sorted(entry.pod.key for entry in found))
    raise AmbiguousContainer(
        f"several pods wait for {count} of these devices, and it cannot be told which this is for: {names}"
    )
