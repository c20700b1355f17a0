"""Patches of a pod's status: the condition that it is unschedulable, and its nominated node."""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime

from gpusquad.engines.kubernetes.status.events import time_text
from gpusquad.engines.kubernetes.status.message import shortened
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of

UNSCHEDULABLE = "Unschedulable"
_MAX_REMEMBERED = 200_000


def is_pending(pod: Object) -> bool:
    """Unbound, not ended, not being deleted and not gated: gpusquad writes its condition."""
    spec, metadata = pod["spec"], pod["metadata"]
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not (spec.get("nodeName") or spec.get("schedulingGates") or is_over or "deletionTimestamp" in metadata)


def status_path(pod: Object) -> str:
    return f"/api/v1/namespaces/{namespace_of(pod)}/pods/{name_of(pod)}/status"


def nominated(pod: Object) -> str:
    return (pod.get("status") or {}).get("nominatedNodeName") or ""


def nomination(pod: Object, node: str) -> Object:
    """A strategic patch for this version of the pod only. It does nothing to a pod that was bound meanwhile."""
    return _patch(pod, {"nominatedNodeName": node or None})


class Conditions:
    """Remembers what was written, so that the same condition is not written twice."""

    def __init__(self, limit: int = _MAX_REMEMBERED) -> None:
        self._limit = limit
        self._written: OrderedDict[str, str] = OrderedDict()

    def patch_for(self, pod: Object, message: str, now: datetime) -> Object | None:
        """None: the pod has this condition already."""
        message, before = shortened(message), self._written.get(uid_of(pod))
        if message == before:
            return None
        condition = {"type": "PodScheduled", "status": "False", "reason": UNSCHEDULABLE, "message": message}
        if before is None:  # otherwise the condition became false earlier, and that time stays
            condition["lastTransitionTime"] = time_text(now)
        return _patch(pod, {"conditions": [condition]})

    def written(self, pod: Object, message: str) -> None:
        self._written[uid_of(pod)] = shortened(message)
        self._written.move_to_end(uid_of(pod))
        if len(self._written) > self._limit:
            self._written.popitem(last=False)


def _patch(pod: Object, status: Object) -> Object:
    metadata = pod["metadata"]
    return {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}, "status": status}
