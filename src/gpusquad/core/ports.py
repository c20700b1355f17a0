"""How the core meets the outside: events come in, decisions go out. Time comes with both; the core has no clock."""

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

# -- events of the core --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PriorAttempts:
    """What a job has behind it when it comes back to the queue or is found running."""

    attempt: int = 0
    kept_us: int = 0
    served_gpu_us: int = 0
    preemptions: int = 0
    sequence: int | None = None
    """Its arrival number; None: it arrives now."""


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job asks to run, for the first time or again."""

    job: Job
    prediction: RunTimePrediction
    past: PriorAttempts = PriorAttempts()


@dataclass(frozen=True, slots=True)
class GangAdopted:
    """A gang that started before this scheduler did."""

    job: Job
    prediction: RunTimePrediction
    placement: Placement
    started_us: int
    past: PriorAttempts = PriorAttempts()


@dataclass(frozen=True, slots=True)
class GangStarted:
    """Every task of a gang runs."""

    job_id: str


@dataclass(frozen=True, slots=True)
class GangStopping:
    """A gang was told to go from outside the cycle: its user cancelled it, or it hangs."""

    job_id: str


@dataclass(frozen=True, slots=True)
class GangEnded:
    """A gang is gone from its cards: finished, failed, or preempted as told. Held: it waits apart to be tried again."""

    job_id: str
    how: Literal["succeeded", "failed", "timed_out", "cancelled", "preempted", "lost", "held"]
    kept_us: int = 0
    """Work that outlives the attempt (checkpoints); counts when the job runs again."""


@dataclass(frozen=True, slots=True)
class JobUpdated:
    """A job's goal, priority or estimate is another one now; it may wait or run."""

    job: Job
    prediction: RunTimePrediction | None = None
    """None: as before."""


@dataclass(frozen=True, slots=True)
class PoliciesChanged:
    """Other policies or tenants from now on; who runs, runs on."""

    policies: Any


@dataclass(frozen=True, slots=True)
class WindowsChanged:
    """Maintenance was announced or called off."""

    windows: tuple[MaintenanceWindow, ...]


@dataclass(frozen=True, slots=True)
class GangSlowed:
    """A neighbour came or went: what is left takes that many times as long."""

    job_id: str
    ratio: float


@dataclass(frozen=True, slots=True)
class EndPredicted:
    """Whoever watches a gang run expects another end than was foretold: by its progress, for example."""

    job_id: str
    end_us: int
    why: str
    """Told to whoever has to wait longer for it."""
    high_end_us: int | None = None
    """By when it is over in nine of ten cases. None: as far behind the end as before."""


@dataclass(frozen=True, slots=True)
class RunTimePredicted:
    """A waiting job is foretold anew: more is known by now of jobs like it."""

    job_id: str
    prediction: RunTimePrediction


@dataclass(frozen=True, slots=True)
class GangResized:
    """The tasks an elastic gang was told to give up have gone."""

    job_id: str


@dataclass(frozen=True, slots=True)
class CardChanged:
    """A card is lost or comes back; or it is still lost, and something else is known of it."""

    card_id: str
    ok: bool
    outage: Outage = UNKNOWN_OUTAGE


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node is drained (takes nothing new) or takes work again."""

    node_id: str
    up: bool


@dataclass(frozen=True, slots=True)
class ClusterChanged:
    """Nodes came, went or changed their size. Who ran on what is gone is not known to the core any more, and nobody may
    go anywhere by a name until ``NodesAllowed`` says what the names mean now."""

    cluster: Cluster


@dataclass(frozen=True, slots=True)
class NodeSetsChanged:
    """What the names stand for that requests give as ``where``: one flag a node, in the cluster's order."""

    allowed: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class ForeignUsageChanged:
    """Somebody else's work came to a node or left it: all of it, as it is now."""

    node_id: str
    foreign: ForeignUsage


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """The user takes a pending job back."""

    job_id: str


Event = (
    JobSubmitted
    | GangAdopted
    | GangStarted
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
"""An engine's end of the loop: told the time and what to do. What comes of it returns as events."""


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
    """User and group id; None: as the service itself."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    sharing_params: SharingParams = field(default_factory=SharingParams)
    """What it is worth beside others on a card."""


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """How one task ended."""

    task: int
    exit_code: int | None = None
    signal: int | None = None
    out_of_memory: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """Every task of the attempt runs (or runs on, after a restart of the service)."""

    job_id: str
    attempt: int
    pids: tuple[int, ...]
    note: str = ""
    """What could not be done as asked, for example limits that are not allowed here."""


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """No task of the attempt runs any more."""

    job_id: str
    attempt: int
    how: Literal["succeeded", "failed", "stopped", "lost"]
    """stopped: as told. lost: its end was not seen."""
    cause: str
    first: TaskEnd | None = None
    """The task that ended the gang, where one did."""
    never_started: bool = False
    ended_us: int | None = None
    """When, by the clock of where it ran: a report can come long after. None: when it is reported."""


Report = AttemptStarted | AttemptEnded


class Engine(Protocol):
    """Runs gangs. Calls return at once; what becomes of them is reported, from any thread, at least once."""

    def launch(self, launch: Launch) -> None:
        """Start all tasks of an attempt, or none. A second call for the same attempt never starts anything."""
        ...

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        """Ask the tasks to end, and make them after the grace time. Unknown attempts are reported lost."""
        ...

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None:
        """On cards that its tasks share, this is what they are worth from now on. Unknown attempts: nothing."""
        ...

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        """Each task may hold less of its card's memory from now on. Invalid: one of them holds more, or it cannot be
        changed here; then nothing has changed. May take seconds."""
        ...

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        """By task: the most memory of its card that it has held since the attempt began, exactly. 0: not known. May
        take seconds."""
        ...

    def recover(self, attempts: Sequence[tuple[str, int]]) -> None:
        """After a restart: report on each of these, and stop whatever else of ours still runs."""
        ...

    def close(self) -> None:
        """Stop watching. Tasks run on."""
        ...
