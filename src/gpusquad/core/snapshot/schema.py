"""Fields of a snapshot file, version 1. The names are part of the format; the state may use others."""

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
    """A pending job. ``key`` is the order policy's key when it was last ranked."""

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
    admitted_until_us: int | None = None
    """None: unknown, as in files of earlier versions."""
    shrinks_to: SavedPlacement | None = None


@dataclass(frozen=True)
class SavedReservation:
    job_id: str
    start_us: int
    end_us: int
    placement: SavedPlacement | None
    spare_cards: int = 0
    first_us: int = 0
    keeps_cards: bool = False


@dataclass(frozen=True)
class SavedPin:
    placement: SavedPlacement
    holders: tuple[str, ...]
    closed: tuple[int, ...] = ()


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
    """All state that decisions depend on."""

    version: int
    now_us: int
    sequence: int
    settled: bool
    """``SchedulerState.capacity_unchanged``."""
    brighter: bool
    """``SchedulerState.reservations_may_advance``."""
    any_node_rows: bool
    with_rate: bool
    """Whether a rate function was used. It is code and not part of the file; the caller of ``load_snapshot`` supplies
    it."""
    why_moved: str
    resizes: bool
    careful: bool
    cluster: Cluster
    windows: tuple[MaintenanceWindow, ...]
    policies: SavedPolicies
    pending: tuple[SavedPendingJob, ...]
    running: tuple[SavedRun, ...]
    sharers: dict[str, tuple[str, ...]]
    """Jobs that share a card, in order of arrival, because the rounding of the total load depends on it."""
    cards_lost: tuple[str, ...]
    nodes_drained: tuple[str, ...]
    promises: tuple[SavedReservation, ...]
    first_promise: dict[str, int]
    claims: dict[str, str]
    accounts: SavedAccounts
    due_until_us: int = 0
    decided_us: int = 0
    suspends: bool = False
    committed_us: dict[str, int] = field(default_factory=dict)
    places_us: dict[str, int] = field(default_factory=dict)
    startless_us: dict[str, int] = field(default_factory=dict)
    pins: dict[str, SavedPin] = field(default_factory=dict)
    outages: dict[str, Outage] = field(default_factory=dict)
    """Why cards are lost."""
    allowed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """``Request.where`` -> allowed nodes."""
    foreign: dict[str, ForeignUsage] = field(default_factory=dict)
    """Foreign usage by node."""
