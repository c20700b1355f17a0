"""Interprets a pod's status: it is up, it cannot come up, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HOPELESS = frozenset({
    "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "CrashLoopBackOff",
})  # fmt: skip
"""Reasons of a waiting container for which a longer wait hardly helps. The kubelet reports ImagePullBackOff after its
first try.
"""
ENDED = ("Failed", "Succeeded")

Pod = Mapping[str, Any]


def is_ready(pod: Pod) -> bool:
    return _condition(pod, "Ready").get("status") == "True"


def failure_reason(pod: Pod) -> str:
    """Why the pod will not come up. Empty: it may."""
    status = pod.get("status", {})
    if "deletionTimestamp" in pod.get("metadata", {}):
        return "it was deleted before it was ready"
    if status.get("phase") in ENDED:
        reason = _text(status) or next(filter(None, map(_text, _states(pod, "terminated"))), "")
        return f"it ended: {reason}" if reason else "it ended"
    return next((_text(state) for state in _states(pod, "waiting") if state.get("reason") in HOPELESS), "")


def pending_reason(pod: Pod) -> str:
    """What the pod waits for, as reported by its status."""
    waiting = next(filter(None, map(_text, _states(pod, "waiting"))), "")
    if waiting:
        return waiting
    placed = _condition(pod, "PodScheduled")
    if placed.get("status") != "True":
        return placed.get("message") or "no scheduler has considered it yet"
    return "its node has not started it yet"


def _condition(pod: Pod, kind: str) -> Mapping[str, Any]:
    found = pod.get("status", {}).get("conditions") or ()
    return next((one for one in found if one.get("type") == kind), {})


def _states(pod: Pod, kind: str) -> Iterator[Mapping[str, Any]]:
    for container in pod.get("status", {}).get("containerStatuses") or ():
        if kind in container.get("state", {}):
            yield container["state"][kind]


def _text(state: Mapping[str, Any]) -> str:
    """Reason and message, if there are any."""
    return ": ".join(filter(None, (state.get("reason", ""), str(state.get("message", "")).strip()[-600:])))
