"""Pods that are about to be killed: what they have on cards that they share is done first.

The kubelet sends TERM as soon as it hears of a deletion, and we hear of it no sooner: all that can be waited for is
what a pod still has on its card when KILL is near.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.gpu.api import CardSharing, Holder

_DRAIN_S = 2.0
"""The end of the grace period, in which a pod gets no more work onto a card whose MPS pool it is in."""
_LEAST_S = 0.1
"""Time enough to hold it at all. KILL is seldom early: the API server leaves out fractions of a second."""
_log = logging.getLogger(__name__)


class PodDrainer:
    """Hears of each look at the node; nothing here makes that wait."""

    def __init__(self, sharing: CardSharing, every_s: float, now_s: Callable[[], float] = time.time) -> None:
        """``every_s``: between two looks. ``now_s``: by the calendar, as the API server tells when a pod is killed."""
        self._sharing, self._ahead_s, self._now_s = sharing, _DRAIN_S + every_s, now_s
        self._owners: Mapping[int, str] = {}
        self._begun: set[str] = set()

    def hear(self, pods: Iterable[Pod], owners: Mapping[int, str]) -> None:
        """``owners``: pods (namespace/name) by the machine's pids of their processes."""
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
            _log.exception("the work of pod %s stays on its card", pod.key)
            return
        if not is_done:
            _log.warning("pod %s is killed with work on its card, which may reach others in the MPS pool", pod.key)

    def _drained(self, pod: Pod, killed_at_s: float) -> bool:
        def left_s() -> float:
            return max(_LEAST_S, self._left_s(killed_at_s))

        holders = [Holder(pod.uid, container.name, pod.job) for container in pod.containers]
        pooled = [holder for holder in holders if self._sharing.is_pooled(holder)]
        if len(pooled) > 1:  # all at rest before MPS lets go: which process is of which container is not known
            self._sharing.pause(pooled, left_s())
        pids = {pid for pid, owner in self._owners.items() if owner == pod.key}
        are_done = [self._sharing.drain(holder, pids, left_s()) for holder in pooled]
        return all(are_done)
