"""What a scrape asks for: the state of things at one instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpusquad.core.transitions import JobState
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import CardStatus


@dataclass(frozen=True, slots=True)
class TenantQueue:
    """The pending jobs of one tenant."""

    depth: int
    oldest_s: float
    """How long the oldest of them has waited."""


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Jobs, queues and cards now."""

    jobs: Mapping[str, int] = field(default_factory=dict)
    """State: how many jobs."""
    queues: Mapping[str, TenantQueue] = field(default_factory=dict)
    """Tenant: its queue."""
    cards: Sequence[CardStatus] = ()
    usable: Mapping[int, int] = field(default_factory=dict)
    """Gang size on one node: how many such gangs fit now."""


class MetricsSource(Protocol):
    """Who knows the state of things. Asked once a scrape, from the thread that serves it."""

    def metrics_snapshot(self) -> MetricsSnapshot: ...


class UnfinishedJob(Protocol):
    """What is read of a job's row."""

    @property
    def tenant(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def submitted_us(self) -> int: ...


def snapshot_of(
    unfinished: Iterable[UnfinishedJob], now_us: int, *, tenants: Iterable[str] = (),
    finished: Mapping[str, int] | None = None, cards: Sequence[CardStatus] = (),
    usable: Mapping[int, int] | None = None,
) -> MetricsSnapshot:  # fmt: skip
    """From the rows of unfinished jobs and what else is known.

    ``tenants``: shown even when they wait for nothing, so that their series go down to 0 instead of ending.
    """
    rows = list(unfinished)
    waits = {tenant: [] for tenant in tenants}
    for row in rows:
        if row.state == JobState.PENDING:
            waits.setdefault(row.tenant, []).append(max(now_us - row.submitted_us, 0) / US_PER_S)
    return MetricsSnapshot(
        jobs=Counter(str(row.state) for row in rows) + Counter(finished or {}),
        queues={tenant: TenantQueue(len(ages), max(ages, default=0.0)) for tenant, ages in waits.items()},
        cards=cards,
        usable=usable or {},
    )
