"""GPU clients on this node's cards, kept in step with its pods."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.sharing_params import read_sharing_params
from gpusquad.gpu.api import Attachment, CardSharing, Holder
from gpusquad.model.cluster import Card
from gpusquad.model.job import Share
from gpusquad.model.sharing_params import SharingParams

_log = logging.getLogger(__name__)


class CardClients:
    """Serialises its calls: the kubelet's thread adds pods, the reconciler's thread removes them."""

    def __init__(self, quotas: Sequence[CardSharing], passes_users: bool = False) -> None:
        """Each quota adds its part to what a container gets. ``passes_users``: pass on the container's user, if known.
        MPS needs it, because one MPS server serves one user. Otherwise it is left out: a file that is writable for one
        user only would not be writable for another user that the container switches to."""
        self._quotas = tuple(quotas)
        self._tells_users = passes_users
        self._lock = threading.Lock()
        self._new: set[str] = set()
        self._params: dict[str, SharingParams] = {}
        self._logged_errors: dict[str, tuple[str, ...]] = {}
        """By pod: invalid annotations that were logged."""

    def attach(self, pod: Pod, container: Container, cards: Sequence[Card], share: Share | None) -> Attachment:
        """What the container needs besides its cards. Invalid, OSError: its share cannot be enforced."""
        with self._lock:
            params = self._read_params(pod)
            self._new.add(pod.uid)
            self._params[pod.uid] = params
            holder = self._holder(pod, container)
            return _joined([each.attach(cards, holder, share, params) for each in self._quotas])

    def follow(self, pods: Iterable[Pod]) -> None:
        """``pods`` are all pods of the node, as of a moment ago. Releases what was kept for others."""
        running = [pod for pod in pods if not pod.has_ended]
        with self._lock:
            # Pods attached since the last call may be newer than the list.
            owners, self._new = {pod.uid for pod in running} | self._new, set()
            for quota in self._quotas:
                quota.release_all_but(owners)
            self._params = {uid: params for uid, params in self._params.items() if uid in owners}
            self._logged_errors = {uid: errors for uid, errors in self._logged_errors.items() if uid in owners}
            for pod in running:
                self._update(pod)

    def _update(self, pod: Pod) -> None:
        """Also for pods of an earlier agent process, whose annotations may have changed meanwhile."""
        params = self._read_params(pod)
        if self._params.get(pod.uid) == params:
            return
        self._params[pod.uid] = params
        for container in pod.containers:
            for quota in self._quotas:
                quota.change(self._holder(pod, container), params)

    def _read_params(self, pod: Pod) -> SharingParams:
        """Ignores invalid annotations and logs them once."""
        params, errors = read_sharing_params(pod)
        if errors != self._logged_errors.get(pod.uid, ()):
            self._logged_errors[pod.uid] = errors
            for each in errors:
                _log.warning("ignoring an invalid annotation of pod %s: %s", pod.key, each)
        return params

    def _holder(self, pod: Pod, container: Container) -> Holder:
        return Holder(pod.uid, container.name, pod.job, container.run_as if self._tells_users else None)


def _joined(parts: Sequence[Attachment]) -> Attachment:
    return Attachment(
        env={name: value for part in parts for name, value in part.env.items()},
        mounts=tuple(mount for part in parts for mount in part.mounts),
        devices=tuple(device for part in parts for device in part.devices),
        notes=tuple(note for part in parts for note in part.notes),
    )
