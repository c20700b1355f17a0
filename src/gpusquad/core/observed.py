"""What an engine sees in a cluster that is not ours alone: gangs that others put there, nodes that come and go.

On one machine the service knows every job because it was asked to run it. On a cluster the cluster is right about what
exists and where it runs: the engine tells what it sees, and the service keeps up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gpusquad.core.ports import Engine, ForeignUsageChanged
from gpusquad.model.cluster import Cluster
from gpusquad.model.job import Job
from gpusquad.model.sharing_params import SharingParams


@dataclass(frozen=True, slots=True)
class TaskLocation:
    """Where one task is."""

    node: str
    cards: tuple[str, ...]
    sharing_params: SharingParams | None = field(default=None, compare=False)
    """What the node is told of it. None: nobody has said yet."""


@dataclass(frozen=True, slots=True)
class GangFound:
    """A gang that is complete: it waits to be placed, or it runs already."""

    job: Job
    places: tuple[TaskLocation, ...] = ()
    """By rank, where it is on its cards already: it is adopted there."""
    started_us: int | None = None


@dataclass(frozen=True, slots=True)
class GangWithdrawn:
    """A gang that waited is there no more: deleted, or no longer complete."""

    job_id: str
    cause: str
    how: str = "cancelled"


@dataclass(frozen=True, slots=True)
class GangsResynced:
    """After a start: these are all gangs there are. Whoever is on record and not among them has gone meanwhile."""

    job_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClusterObserved:
    """The nodes, what the names of sets of nodes mean, and what others hold. What is None is as before."""

    cluster: Cluster | None = None
    allowed: Mapping[str, NDArray[np.bool_]] | None = None
    others: tuple[ForeignUsageChanged, ...] = ()
    broken: frozenset[str] | None = None
    """All cards that must not be used, by the word of whoever is beside them."""


Sighting = GangFound | GangWithdrawn | GangsResynced | ClusterObserved


class ClusterEngine(Engine, Protocol):
    """An engine for gangs that others make. Its ``recover`` begins the telling: all that is on record was resumed."""

    def resume(self, job: Job, attempt: int, places: Sequence[TaskLocation], has_started: bool) -> None:
        """After a start: what was decided before. It goes on there, or is reported as ended. Later: which attempt it is
        that was found on its cards."""
        ...

    def withdraw(self, job_id: str, cause: str) -> None:
        """Nobody wants it any more, waiting or running: whoever makes its tasks again is to stop."""
        ...

    def finished(self, job_id: str) -> None:
        """It is over for good, by the service's own judgement: what is made of its tasks again is another job."""
        ...

    def another_life(self, job_id: str) -> None:
        """That job is over, and its name is there again: it is found under another id."""
        ...
