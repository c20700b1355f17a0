"""Drops unused fields from watched objects, because a cluster may have tens of thousands of pods."""

from __future__ import annotations

from gpusquad.kube.names import HOST_FILE, MACHINE_FILE
from gpusquad.kube.objects import Object

_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "creationTimestamp",
             "deletionTimestamp", "ownerReferences")  # fmt: skip
_CONTAINER = ("name", "image", "command", "args", "resources", "ports", "restartPolicy")
_POD_DROPS = ("imagePullSecrets", "dnsConfig", "hostAliases", "readinessGates", "securityContext", "enableServiceLinks")
_POD_STATUS = ("phase", "startTime", "reason", "message", "nominatedNodeName")
DISRUPTION = "DisruptionTarget"
"""Condition of pods that the kubelet or the control plane ends."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def shrink_pod(pod: Object) -> Object:
    """In place."""
    _shrink_metadata(pod)
    spec, status = pod["spec"], pod.get("status") or {}
    for name in _POD_DROPS:
        spec.pop(name, None)
    for kind in ("containers", "initContainers"):
        if kind in spec:
            spec[kind] = [{name: c[name] for name in _CONTAINER if name in c} for c in spec[kind]]
    spec.pop("ephemeralContainers", None)
    kept = {name: status[name] for name in _POD_STATUS if name in status}
    if status.get("containerStatuses"):
        kept["containerStatuses"] = [
            {"name": c.get("name"), "state": c.get("state"), "restartCount": c.get("restartCount", 0)}
            for c in status["containerStatuses"]
        ]
    disrupted = [each for each in status.get("conditions") or () if each.get("type") == DISRUPTION]
    if disrupted:
        kept["conditions"] = [{"type": DISRUPTION}]
    pod["status"] = kept
    return pod


def shrink_node(node: Object) -> Object:
    """In place."""
    _shrink_metadata(node)
    status = node.get("status") or {}
    node["status"] = {"allocatable": status.get("allocatable") or {}}
    return node


def shrink_other(item: Object) -> Object:
    """In place, for all other kinds."""
    _shrink_metadata(item)
    return item


def _shrink_metadata(item: Object) -> None:
    metadata = item["metadata"]
    item["metadata"] = {name: metadata[name] for name in _METADATA if name in metadata}
    annotations = metadata.get("annotations")
    if annotations:
        for name in (_LAST_APPLIED, HOST_FILE, MACHINE_FILE):
            annotations.pop(name, None)
