"""Settings of the Kubernetes engine. The defaults suit most clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gpusquad.kube.names import SCHEDULER

Assigned = Literal["none", "gang", "pod"]


@dataclass(frozen=True)
class StatusSettings:
    """How much status is written to pods, and how fast. The defaults are a light load, however many pods wait."""

    per_second: float = 10.0
    """Status writes per second, over all pods. 0: no status is written."""
    burst: float = 50.0
    """Writes allowed at once after a pause, so that a quiet cluster gets every status without delay."""
    every_s: float = 60.0
    """Least seconds between two writes to a pod that differ only in numbers."""
    repeat_s: float = 300.0
    """Seconds after which the same status is written again. The API server deletes events after an hour."""
    flap_s: float = 5.0
    """Least seconds between two different writes to a pod."""
    max_normal_events: int = 1000
    """Normal events that may wait to be written; further ones are dropped. Warnings are never dropped."""
    assigned: Assigned = "gang"
    """Pods that get the event ``Scheduled``: none, the first of each gang, or all."""
    in_flight: int = 4
    """Writes at the same time."""


@dataclass(frozen=True)
class KubernetesSettings:
    scheduler: str = SCHEDULER
    """``spec.schedulerName`` of the pods to schedule."""
    start_timeout_s: float = 600.0
    """A gang that does not have all pods running by then is released and requeued."""
    settle_s: float = 0.02
    """Seconds over which changes of nodes and of foreign pods are collected before they are reported to the service."""
    in_flight: int = 64
    """Requests at the same time."""
    per_second: float | None = None
    """Requests per second; None: no limit on our side."""
    sync_timeout_s: float = 120.0
    dry_run: bool = False
    """Bind and delete nothing; only write events that say what would be done."""
    status: StatusSettings = field(default_factory=StatusSettings)
