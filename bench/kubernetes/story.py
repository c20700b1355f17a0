"""A gang for the whole cluster arrives behind running jobs while small jobs keep arriving: start time of each.

Eight cards: four are in use for some time, four for twice as long. The gang needs all eight. Small jobs of two kinds
arrive continuously: *short* ones that end before the gang can start, and *long* ones that do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.kube.plane import PODGROUPS, ControlPlane

PODS = "/api/v1/namespaces/default/pods"
GROUPS = f"{PODGROUPS}/namespaces/default/podgroups"
GANG = 8
BRIEF_S, LONG_S = 6, 12
SHORT_JOB_S, LONG_JOB_S = 2, 20
SLACK_S = 2
"""Users estimate a little more than it takes."""
SHORT_JOBS, LONG_JOBS = 8, 8


@dataclass
class StoryResult:
    """Seconds since the gang came."""

    gang_s: float = 0.0
    """When all of it ran."""
    short_before: int = 0
    """Small jobs that ran before the gang did."""
    long_before: int = 0
    promised_s: float | None = None
    bound: dict[str, float] = field(default_factory=dict)


def play(plane: ControlPlane, scheduler: str, promise: Callable[[], float | None] = lambda: None,
         timeout_s: float = 90.0) -> StoryResult:  # fmt: skip
    """``promise`` is called shortly after the gang arrived and returns the seconds until its reserved start."""
    for index in range(4):
        _pod(plane, scheduler, f"brief-{index}", BRIEF_S)
        _pod(plane, scheduler, f"lasting-{index}", LONG_S)
    _until_bound(plane, [f"{kind}-{index}" for kind in ("brief", "lasting") for index in range(4)])
    gang = {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}}}
    plane.admin.post(GROUPS, gang)
    start_s = time.monotonic()
    for index in range(GANG):
        _pod(plane, scheduler, f"gang-{index}", 3, group="gang")
    result = StoryResult()
    result.promised_s = promise()
    if result.promised_s is not None:
        result.promised_s += time.monotonic() - start_s
    for index in range(max(SHORT_JOBS, LONG_JOBS)):
        _pod(plane, scheduler, f"short-{index}", SHORT_JOB_S)
        _pod(plane, scheduler, f"long-{index}", LONG_JOB_S)
    return _watch(plane, result, start_s, timeout_s)


def _watch(plane: ControlPlane, result: StoryResult, start_s: float, timeout_s: float) -> StoryResult:
    def note(pods: list[dict[str, Any]]) -> bool:
        now = time.monotonic() - start_s
        for pod in pods:
            if pod["spec"].get("nodeName"):
                result.bound.setdefault(pod["metadata"]["name"], now)
        return all(f"gang-{index}" in result.bound for index in range(GANG))

    plane.admin.until(PODS, note, timeout_s)
    result.gang_s = max(result.bound[f"gang-{index}"] for index in range(GANG))
    before = [name for name, at in result.bound.items() if at < result.gang_s]
    result.short_before = sum(name.startswith("short-") for name in before)
    result.long_before = sum(name.startswith("long-") for name in before)
    return result


def _until_bound(plane: ControlPlane, names: list[str]) -> None:
    wanted = set(names)
    plane.admin.until(
        PODS, lambda pods: wanted <= {p["metadata"]["name"] for p in pods if p["spec"].get("nodeName")}
    )  # fmt: skip


def _pod(plane: ControlPlane, scheduler: str, name: str, run_s: float, group: str = "") -> None:
    annotations = {"fake.gpusquad/run-time": f"{run_s}s", "gpusquad.io/estimate": f"{run_s + SLACK_S}s"}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec: dict[str, Any] = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    plane.admin.post(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
