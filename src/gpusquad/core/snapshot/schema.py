"""What a snapshot holds, field by field: the schema of version 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpusquad.core.state.accounts import TenantQuota, TenantUsage
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.policies import PreemptionConfig
from gpusquad.model.cluster import Cluster, ForeignUsage, MaintenanceWindow, Outage
from gpusquad.model.job import Job, Request
from gpusquad.model.views import RunTimePrediction


@dataclass(frozen=True)
class SavedShapePlacement:
    """Tasks of one shape, by index into the cluster's nodes and cards."""

    group: int
    nodes: tuple[int, ...]
    cards: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SavedPlacement:
    parts: tuple[SavedShapePlacement, ...]
    note: str = ""


@dataclass(frozen=True)
class SavedPendingJob:
    """A pending job. ``key`` is the order's key when it was last ranked."""

    job: Job
    forecast: RunTimePrediction
    sequence: int
    key: tuple[Any, ...]
    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    fresh: bool = False
    blocked: bool = False


@dataclass(frozen=True)
class SavedRun:
    job: Job
    placement: SavedPlacement
    forecast: RunTimePrediction
    started_us: int
    end_us: int
    sequence: int
    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    leaving: bool = False
    slack_us: int = 0
    shrinks_to: SavedPlacement | None = None


@dataclass(frozen=True)
class SavedReservation:
    job_id: str
    start_us: int
    end_us: int
    placement: SavedPlacement | None
    spare_cards: int = 0
    first_us: int = 0


@dataclass(frozen=True)
class SavedPolicies:
    """``order``, ``plan`` and ``place`` as text that the registry reads."""

    order: str
    plan: str
    place: str
    preemption: PreemptionConfig
    lanes: tuple[Lane, ...]
    tenants: tuple[TenantQuota, ...]
    demand: tuple[tuple[Request, float], ...]
    names: dict[str, str]


@dataclass(frozen=True)
class SavedAccounts:
    tenants: tuple[TenantQuota, ...]
    held: dict[str, TenantUsage]
    lane_gpus: dict[str, int]


@dataclass(frozen=True)
class Snapshot:
    """Everything that decisions depend on."""

    version: int
    now_us: int
    sequence: int
    settled: bool
    brighter: bool
    any_node_rows: bool
    with_rate: bool
    """A rate function had a say. Being code, it is not dumped: who loads brings it, or decides without."""
    why_moved: str
    resizes: bool
    careful: bool
    cluster: Cluster
    windows: tuple[MaintenanceWindow, ...]
    policies: SavedPolicies
    pending: tuple[SavedPendingJob, ...]
    running: tuple[SavedRun, ...]
    sharers: dict[str, tuple[str, ...]]
    """Who shares a card, in the order they came: sums of loads depend on it, if only in the last digit."""
    cards_lost: tuple[str, ...]
    nodes_drained: tuple[str, ...]
    promises: tuple[SavedReservation, ...]
    first_promise: dict[str, int]
    claims: dict[str, str]
    accounts: SavedAccounts
    due_until_us: int = 0
    outages: dict[str, Outage] = field(default_factory=dict)
    """Why cards are lost."""
    allowed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For each name that a request gives as where: the nodes it means."""
    foreign: dict[str, ForeignUsage] = field(default_factory=dict)
    """What others hold, by node."""
