"""Drains the work of pods on shared cards shortly before the pods are killed.

The kubelet sends SIGTERM as soon as it sees a deletion, and the agent sees the deletion no sooner. So the agent cannot
drain before SIGTERM. It pauses the launches of a pod shortly before SIGKILL and waits for the work on the card.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.gpu.api import CardSharing, Holder

_DRAIN_S = 2.0
"""Last part of the grace period, in which a pod of an MPS pool may not launch more work."""
_MIN_DRAIN_S = 0.1
"""Duration of a drain that starts late. SIGKILL is rarely earlier than announced: the API server drops fractions of a
second."""
_log = logging.getLogger(__name__)


class PodDrainer:
    """Starts a thread for each pod that has to be drained."""

    def __init__(self, sharing: CardSharing, every_s: float, now_s: Callable[[], float] = time.time) -> None:
        """``every_s``: interval between two calls of ``hear``. ``now_s``: wall clock, as the API server gives the
        time of the kill in it."""
        self._sharing, self._ahead_s, self._now_s = sharing, _DRAIN_S + every_s, now_s
        self._owners: Mapping[int, str] = {}
        self._started: set[str] = set()

    def hear(self, pods: Iterable[Pod], owners: Mapping[int, str]) -> None:
        """Called after each reading of the node. Starts the drains that are due, and does not block.

        ``owners``: keys of pods (namespace/name) by the node's PIDs of their processes.
        """
        self._owners = owners
        due = {pod.uid: pod for pod in pods if self._is_due(pod)}
        self._started &= due.keys()
        for uid, pod in due.items():
            if uid not in self._started:
                self._started.add(uid)
                threading.Thread(target=self._drain_in_time, args=(pod,), name="gpusquad-drain", daemon=True).start()

    def _is_due(self, pod: Pod) -> bool:
        if pod.killed_at_s is None or pod.has_ended or not pod.containers:
            return False
        return self._left_s(pod.killed_at_s) <= self._ahead_s

    def _left_s(self, killed_at_s: float) -> float:
        return killed_at_s - self._now_s()

    def _drain_in_time(self, pod: Pod) -> None:
        assert pod.killed_at_s is not None
        time.sleep(max(0.0, self._left_s(pod.killed_at_s) - _DRAIN_S))
        try:
            is_drained = self._drain(pod, pod.killed_at_s)
        except Exception:
            _log.exception("cannot drain the card of pod %s", pod.key)
            return
        if not is_drained:
            _log.warning("pod %s is killed with work on its card, which may affect others in the MPS pool", pod.key)

    def _drain(self, pod: Pod, killed_at_s: float) -> bool:
        """Whether the work of all containers has ended."""

        def left_s() -> float:
            return max(_MIN_DRAIN_S, self._left_s(killed_at_s))

        holders = [Holder(pod.uid, container.name, pod.job) for container in pod.containers]
        pooled = [holder for holder in holders if self._sharing.is_pooled(holder)]
        if len(pooled) > 1:  # pause all before MPS releases one: ``pids`` are not known by container
            self._sharing.pause(pooled, left_s())
        pids = {pid for pid, owner in self._owners.items() if owner == pod.key}
        are_drained = [self._sharing.drain(holder, pids, left_s()) for holder in pooled]
        return all(are_drained)
