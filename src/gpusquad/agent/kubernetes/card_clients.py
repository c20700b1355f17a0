"""Who holds parts of this node's cards, kept in step with the pods that there are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.sharing_params import read_standing
from gpusquad.gpu.api import Attachment, CardSharing, Holder
from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from gpusquad.model.sharing_params import SharingParams

_log = logging.getLogger(__name__)


class CardClients:
    """One thing after the other: pods come by the kubelet's thread, and go by the one that looks at what there is."""

    def __init__(self, quotas: Sequence[CardSharing], tells_users: bool = False) -> None:
        """Each of these adds its part to what a container gets. ``tells_users``: they hear as whom it runs, where that
        is known. MPS has to, for one server of it serves one user. What is writable for one user alone is not for
        another that a container may change to, so without need nobody is told."""
        self._quotas = tuple(quotas)
        self._tells_users = tells_users
        self._lock = threading.Lock()
        self._new: set[str] = set()
        self._told: dict[str, SharingParams] = {}
        self._unread: dict[str, tuple[str, ...]] = {}
        """What pods say that cannot be read, as it was told last."""

    def attach(self, pod: Pod, container: Container, cards: Sequence[Card], share: Share | None) -> Attachment:
        """What the container needs besides its cards. Invalid, OSError: it cannot be kept to its part."""
        with self._lock:
            sharing_params = self._standing(pod)
            self._new.add(pod.uid)
            self._told[pod.uid] = sharing_params
            holder = self._holder(pod, container)
            return _joined([each.attach(cards, holder, share, sharing_params) for each in self._quotas])

    def follow(self, pods: Iterable[Pod]) -> None:
        """These are all pods of the node, as they were a moment ago. What was kept for others is given back."""
        running = [pod for pod in pods if not pod.has_ended]
        with self._lock:
            # Whoever came since the last time may be younger than that list of pods.
            owners, self._new = {pod.uid for pod in running} | self._new, set()
            for quota in self._quotas:
                quota.release_all_but(owners)
            self._told = {uid: sharing_params for uid, sharing_params in self._told.items() if uid in owners}
            self._unread = {uid: wrong for uid, wrong in self._unread.items() if uid in owners}
            for pod in running:
                self._tell(pod)

    def _tell(self, pod: Pod) -> None:
        """Those of an earlier agent too, whose annotations may have changed meanwhile."""
        sharing_params = self._standing(pod)
        if self._told.get(pod.uid) == sharing_params:
            return
        self._told[pod.uid] = sharing_params
        for container in pod.containers:
            for quota in self._quotas:
                quota.change(self._holder(pod, container), sharing_params)

    def _standing(self, pod: Pod) -> SharingParams:
        """Without what cannot be read of it, of which people hear once."""
        sharing_params, wrong = read_standing(pod)
        if wrong != self._unread.get(pod.uid, ()):
            self._unread[pod.uid] = wrong
            for each in wrong:
                _log.warning("pod %s says what cannot be read, and is treated as if it did not: %s", pod.key, each)
        return sharing_params

    def _holder(self, pod: Pod, container: Container) -> Holder:
        return Holder(pod.uid, container.name, pod.job, container.run_as if self._tells_users else None)


def _joined(parts: Sequence[Attachment]) -> Attachment:
    return Attachment(
        env={name: value for part in parts for name, value in part.env.items()},
        mounts=tuple(mount for part in parts for mount in part.mounts),
        devices=tuple(device for part in parts for device in part.devices),
        notes=tuple(note for part in parts for note in part.notes),
    )
