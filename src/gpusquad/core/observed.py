"""What an engine observes in a cluster that others use too: gangs that they created, nodes that come and go.

On one machine the service knows every job because it was submitted there. On a cluster the API is the authority on what
exists and where it runs: the engine reports what it observes, and the service follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpusquad.core.ports import Engine, ForeignUsageChanged
from gpusquad.model.card_faults import FaultClass
from gpusquad.model.cluster import Cluster
from gpusquad.model.job import Job
from gpusquad.model.sharing_params import SharingParams


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """Node and cards of one task."""

    node: str
    cards: tuple[str, ...]
    sharing_params: SharingParams | None = field(default=None, compare=False)
    """Its parameters on a shared card, as sent to the node. None: not set yet."""


@dataclass(frozen=True, slots=True)
class GangFound:
    """A complete gang was found: pending or already running."""

    job: Job
    places: tuple[TaskLocation, ...] = ()
    """By rank, if it already runs: it is adopted there."""
    started_us: int | None = None


@dataclass(frozen=True, slots=True)
class GangWithdrawn:
    """A pending gang was deleted or is no longer complete."""

    job_id: str
    cause: str
    how: str = "cancelled"


@dataclass(frozen=True, slots=True)
class GangsResynced:
    """All gangs that exist after a start. Gangs on record that are not listed have ended meanwhile."""

    job_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClusterObserved:
    """The nodes, the named node sets and the foreign usage. None: unchanged."""

    cluster: Cluster | None = None
    allowed: Mapping[str, NDArray[np.bool_]] | None = None
    others: tuple[ForeignUsageChanged, ...] = ()
    broken: Mapping[str, tuple[str, FaultClass]] | None = None
    """All cards that the agents report as unusable, with the cause and its class."""


Sighting = GangFound | GangWithdrawn | GangsResynced | ClusterObserved


class ClusterEngine(Engine, Protocol):
    """An engine for gangs that others create. It starts to report after ``recover``, when all on record were
    resumed."""

    def resume(self, job: Job, attempt: int, places: Sequence[TaskLocation], has_started: bool) -> None:
        """After a start: continue an earlier decision, or report that the gang has ended. Later: which attempt was
        found running."""
        ...

    def withdraw(self, job_id: str, cause: str) -> None:
        """Cancel a pending or running job. The controller that recreates its tasks is stopped."""
        ...

    def finished(self, job_id: str) -> None:
        """The service considers the job finished. Tasks created again belong to another job."""
        ...

    def begin_incarnation(self, job_id: str) -> None:
        """A finished job's name is used again: the new gang is found under another ID."""
        ...
