"""State of jobs, queues and cards at one scrape."""

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
    """Pending jobs of one tenant."""

    depth: int
    oldest_s: float
    """Waiting time of the oldest of them."""


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """Current jobs, queues and cards."""

    jobs: Mapping[str, int] = field(default_factory=dict)
    """Number of jobs by state."""
    queues: Mapping[str, TenantQueue] = field(default_factory=dict)
    """Queue by tenant."""
    cards: Sequence[CardStatus] = ()
    usable: Mapping[int, int] = field(default_factory=dict)
    """Gang size on one node: how many such gangs fit now."""


class MetricsSource(Protocol):
    """Gives the current state. Called once per scrape, in the thread that serves it."""

    def metrics_snapshot(self) -> MetricsSnapshot: ...


class UnfinishedJob(Protocol):
    """The fields of a job's row that are used."""

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
    """From the rows of unfinished jobs and the cluster's state.

    ``tenants`` are included even without pending jobs, so that their series go to 0 instead of ending.
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
