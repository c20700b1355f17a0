"""Interfaces of the core: events in, decisions out. Both carry the time; the core has no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.cluster import UNKNOWN_OUTAGE, Cluster, ForeignUsage, MaintenanceWindow, Outage
from gpusquad.model.decision import Decision
from gpusquad.model.job import Job, Share
from gpusquad.model.placement import Placement
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.views import RunTimePrediction

# -- events --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PriorAttempts:
    """History of a job that is requeued or adopted."""

    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    sequence: int | None = None
    """Its arrival number. None: it arrives now."""


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job was submitted or requeued."""

    job: Job
    prediction: RunTimePrediction
    past: PriorAttempts = PriorAttempts()


@dataclass(frozen=True, slots=True)
class GangAdopted:
    """A gang was found running that started before this scheduler."""

    job: Job
    prediction: RunTimePrediction
    placement: Placement
    started_us: int
    past: PriorAttempts = PriorAttempts()


@dataclass(frozen=True, slots=True)
class GangStopping:
    """A gang is being stopped by a decision outside the cycle: its user cancelled it, or it hangs."""

    job_id: str


@dataclass(frozen=True, slots=True)
class GangEnded:
    """A gang has left its cards. ``held``: it waits outside the queue for a retry."""

    job_id: str
    how: Literal["succeeded", "failed", "timed_out", "cancelled", "preempted", "lost", "held"]
    kept_us: int = 0
    """Work kept by checkpoints for the next attempt."""


@dataclass(frozen=True, slots=True)
class JobUpdated:
    """The SLO, priority or estimate of a pending or running job changed."""

    job: Job
    prediction: RunTimePrediction | None = None
    """None: unchanged."""


@dataclass(frozen=True, slots=True)
class PoliciesChanged:
    """The policies or tenants changed. Running jobs continue."""

    policies: Any
    why: str = "the policies changed"


@dataclass(frozen=True, slots=True)
class WindowsChanged:
    """The maintenance windows changed."""

    windows: tuple[MaintenanceWindow, ...]


@dataclass(frozen=True, slots=True)
class GangSlowed:
    """The neighbours of a gang changed: its remaining time is multiplied by ``ratio``."""

    job_id: str
    ratio: float


@dataclass(frozen=True, slots=True)
class EndPredicted:
    """A new predicted end of a running gang, for example from its progress."""

    job_id: str
    end_us: int
    why: str
    """Cause for jobs that have to wait longer."""
    high_end_us: int | None = None
    """P90 of the end. None: as far behind the end as before."""


@dataclass(frozen=True, slots=True)
class RunTimePredicted:
    """A new run-time prediction of a pending job, after more similar jobs have ended."""

    job_id: str
    prediction: RunTimePrediction


@dataclass(frozen=True, slots=True)
class GangResized:
    """The tasks that an elastic gang had to release have ended."""

    job_id: str


@dataclass(frozen=True, slots=True)
class CardChanged:
    """A card was lost or returned, or the outage of a lost card changed."""

    card_id: str
    ok: bool
    outage: Outage = UNKNOWN_OUTAGE


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node was drained (accepts no new work) or reopened."""

    node_id: str
    up: bool


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """Nodes were added, removed or resized. The core drops runs on removed nodes. Named node sets are empty until the
    next ``NodeSetsChanged``."""

    cluster: Cluster


@dataclass(frozen=True, slots=True)
class NodeSetsChanged:
    """Node sets by the name in ``Request.where``: one flag per node, in cluster order. Either masks alone, or
    ``NodeSets`` that know what starts change about them."""

    allowed: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class ForeignUsageChanged:
    """The foreign usage of a node changed. Contains all of it."""

    node_id: str
    foreign: ForeignUsage


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """The user cancelled a pending job."""

    job_id: str


Event = (
    JobSubmitted
    | GangAdopted
    | GangStopping
    | GangEnded
    | JobUpdated
    | GangSlowed
    | EndPredicted
    | RunTimePredicted
    | GangResized
    | CardChanged
    | NodeChanged
    | ClusterChanged
    | NodeSetsChanged
    | ForeignUsageChanged
    | JobCancelled
    | PoliciesChanged
    | WindowsChanged
)

CarryOut = Callable[[int, Sequence[Decision]], None]
"""Sink of the driver: gets the time and the decisions of every cycle. Their results return as events."""


# -- engines that run real tasks -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TaskLaunch:
    """One task of a gang, ready to run."""

    index: int
    """Its rank in the gang."""
    role: str
    role_index: int
    node: str
    cards: tuple[str, ...]
    command: tuple[str, ...]
    cpu_milli: int = 0
    """0: no limit."""
    memory_bytes: int = 0
    share: Share | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt of a gang: every task or none."""

    job_id: str
    attempt: int
    name: str
    tenant: str
    user: str
    tasks: tuple[TaskLaunch, ...]
    workdir: str
    grace_s: float
    simulated: bool = False
    run_as: tuple[int, int] | None = None
    """User and group ID. None: those of the service."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    sharing_params: SharingParams = field(default_factory=SharingParams)
    """Its parameters on a shared card."""
    is_elastic: bool = False
    """Another attempt may have another number of tasks."""

    @property
    def is_gang(self) -> bool:
        """The program is one of a gang. That of an elastic job is, even if only one task runs."""
        return self.is_elastic or len(self.tasks) > 1


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How one task ended."""

    task: int
    exit_code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class TaskUsage:
    """What the largest task of an attempt used on its host."""

    cpu_milli: int = 0
    """Mean over the run."""
    largest_bytes: int = 0
    """Peak memory of its largest process."""
    group_bytes: int = 0
    """Peak memory of all its processes with their file caches, if control groups count it. 0: unknown."""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """All tasks of the attempt run, also after a restart of the service."""

    job_id: str
    attempt: int
    pids: tuple[int, ...]
    note: str = ""
    """What could not be satisfied, for example limits that are not permitted here."""


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """All tasks of the attempt have ended."""

    job_id: str
    attempt: int
    how: Literal["succeeded", "failed", "stopped", "lost"]
    """stopped: by a decision. lost: its end was not observed."""
    cause: str
    first: TaskEnd | None = None
    """The task that ended the gang, if any."""
    never_started: bool = False
    ended_us: int | None = None
    """End time by the clock of its node, since the report may be late. None: the time of the report."""
    failed_by_itself: bool = False
    """Its tasks failed, although it is reported as lost because an owner recreates them."""
    usage: TaskUsage | None = None
    """None: not measured."""
    steps: tuple[int, int | None] | None = None
    """Steps done and to do by the end of its output. None: not read."""
    is_refused: bool = False
    """With lost: the engine did not begin, because the cluster has changed since the decision. It counts as no
    attempt: the job is pending again at once."""


Report = AttemptStarted | AttemptEnded


class Engine(Protocol):
    """Runs gangs. Calls return at once; results are reported at least once, from any thread."""

    def launch(self, launch: Launch) -> None:
        """Start all tasks of an attempt or none. A second call for the same attempt starts nothing."""
        ...

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        """Request the tasks to end and kill them after the grace period. Unknown attempts are reported as lost."""
        ...

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None:
        """Set the parameters of its tasks on shared cards. Ignores unknown attempts."""
        ...

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        """Reduce the memory quota of each task. Raises ``Invalid`` without any change if a task holds more, or if this
        engine cannot change it. May take seconds."""
        ...

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        """Exact peak of the card memory of each task since the attempt started. 0: unknown. May take seconds."""
        ...

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None:
        """After a restart: report on each of these attempts, and stop all others of this service."""
        ...

    def close(self) -> None:
        """Stop watching. Tasks continue."""
        ...
