"""Drains shared cards of pods that are about to be killed.

The kubelet sends TERM as soon as it sees a deletion, and the agent sees it no sooner. So the agent can only wait for
the work that a pod still has on its card shortly before KILL.
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
_LEAST_S = 0.1
"""Enough to pause it at all. KILL is rarely early: the API server cuts off fractions of a second."""
_log = logging.getLogger(__name__)


class PodDrainer:
    """Called after each reading of the node. It does not block."""

    def __init__(self, sharing: CardSharing, every_s: float, now_s: Callable[[], float] = time.time) -> None:
        """``every_s``: interval between two readings. ``now_s``: wall clock, as the API server gives the time of the
        kill."""
        self._sharing, self._ahead_s, self._now_s = sharing, _DRAIN_S + every_s, now_s
        self._owners: Mapping[int, str] = {}
        self._begun: set[str] = set()

    def hear(self, pods: Iterable[Pod], owners: Mapping[int, str]) -> None:
        """``owners``: pods (namespace/name) by the node's PIDs of their processes."""
        self._owners = owners
        due = {pod.uid: pod for pod in pods if self._is_due(pod)}
        self._begun &= due.keys()
        for uid, pod in due.items():
            if uid not in self._begun:
                self._begun.add(uid)
                threading.Thread(target=self._drain, args=(pod,), name="gpusquad-drain", daemon=True).start()

    def _is_due(self, pod: Pod) -> bool:
        if pod.killed_at_s is None or pod.has_ended or not pod.containers:
            return False
        return self._left_s(pod.killed_at_s) <= self._ahead_s

    def _left_s(self, killed_at_s: float) -> float:
        return killed_at_s - self._now_s()

    def _drain(self, pod: Pod) -> None:
        assert pod.killed_at_s is not None
        time.sleep(max(0.0, self._left_s(pod.killed_at_s) - _DRAIN_S))
        try:
            is_done = self._drained(pod, pod.killed_at_s)
        except Exception:
            _log.exception("cannot drain the card of pod %s", pod.key)
            return
        if not is_done:
            _log.warning("pod %s is killed with work on its card, which may affect others in the MPS pool", pod.key)

    def _drained(self, pod: Pod, killed_at_s: float) -> bool:
        def left_s() -> float:
            return max(_LEAST_S, self._left_s(killed_at_s))

        holders = [Holder(pod.uid, container.name, pod.job) for container in pod.containers]
        pooled = [holder for holder in holders if self._sharing.is_pooled(holder)]
        if len(pooled) > 1:  # pause all before MPS releases one: which process is in which container is not known
            self._sharing.pause(pooled, left_s())
        pids = {pid for pid, owner in self._owners.items() if owner == pod.key}
        are_done = [self._sharing.drain(holder, pids, left_s()) for holder in pooled]
        return all(are_done)
