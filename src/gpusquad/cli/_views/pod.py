"""State of a pod from its own status and events, used if the service cannot be reached."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpusquad.cli._sanitize import one_line

SOURCE = "gpusquad"
Plain = Mapping[str, Any]


def pod_view(pod: Plain, events: Iterable[Plain]) -> str:
    """Condition and events of a pod, newest last."""
    status = pod.get("status") or {}
    lines = [f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} is {status.get('phase', 'unknown')}"]
    condition = condition_of(pod)
    if condition is not None and condition.get("status") == "False":
        lines.append(f"  {condition.get('reason', '')}: {condition.get('message', '')}")
    if status.get("nominatedNodeName"):
        lines.append(f"  nominated node: {status['nominatedNodeName']}")
    lines += [
        f"  {one.get('lastTimestamp') or ''}  {one.get('reason', '')}: {one.get('message', '')}" for one in ours(events)
    ]
    return "\n".join([one_line(lines[0]), *("  " + one_line(line.strip()) for line in lines[1:])])


def condition_of(pod: Plain) -> Plain | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == "PodScheduled"), None)


def ours(events: Iterable[Plain]) -> list[Plain]:
    """Events written by the scheduler, oldest first."""
    found = [one for one in events if (one.get("source") or {}).get("component") == SOURCE]
    return sorted(found, key=lambda one: str(one.get("lastTimestamp") or ""))
