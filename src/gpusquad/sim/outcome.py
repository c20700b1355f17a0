"""Results of a simulation: one outcome per job, and samples of the cluster over time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np

from gpusquad.model.cluster import Cluster
from gpusquad.model.job import Job

End = Literal["succeeded", "failed", "timed_out", "refused", "unfinished"]


class CardIndexes(Sequence[int]):
    """Card indexes in little memory: stretches of consecutive ones, each as its first and its length. As a tuple, the
    cards of 10,000 jobs on a machine of 80,000 took a gigabyte."""

    __slots__ = ("_count", "_stretches")

    def __init__(self, cards: Sequence[int]) -> None:
        found = np.asarray(cards, dtype=np.int64)
        starts = np.flatnonzero(np.diff(found, prepend=-2) != 1)
        lengths = np.diff(starts, append=len(found))
        self._stretches = array("i", np.column_stack((found[starts], lengths)).ravel().tolist())
        self._count = len(found)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(
            range(first, first + count)
            for first, count in zip(self._stretches[::2], self._stretches[1::2], strict=True)
        )

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(slots=True)
class AttemptSpan:
    """One attempt of a job on its cards (indexes into the cluster's cards, in node order)."""

    started_us: int
    ended_us: int
    cards: Sequence[int]
    cut: Literal["", "preempted", "lost", "resized"] = ""
    """Why it ended before the job did (resized: it continued with another number of tasks)."""


@dataclass(slots=True)
class Outcome:
    """The history of one job."""

    job: Job
    run_us: int
    """Solo run time, from the trace."""
    end: End = "unfinished"
    ended_us: int | None = None
    spans: list[AttemptSpan] = field(default_factory=list)
    promised_us: int | None = None
    """The first reserved start, if it ever had a reservation."""
    lost_us: int = 0
    """Work done twice because of preemptions and failures."""
    why: str = ""

    @property
    def started_us(self) -> int | None:
        return self.spans[0].started_us if self.spans else None

    @property
    def wait_us(self) -> int | None:
        """From submission to first start."""
        return None if self.started_us is None else self.started_us - self.job.submitted_us


@dataclass(slots=True)
class ClusterSamples:
    """The cluster over time, one entry per change (parallel lists)."""

    at_us: array[int] = field(default_factory=lambda: array("q"))
    queued: array[int] = field(default_factory=lambda: array("q"))
    busy_milli: array[int] = field(default_factory=lambda: array("q"))
    """GPU thousandths held (a whole card: 1000; a share: the larger of its SM and memory fractions)."""
    stranded: array[int] = field(default_factory=lambda: array("q"))
    """Cards idle while jobs are pending."""


@dataclass(slots=True)
class SimulationResult:
    """One simulation."""

    label: str
    policies: dict[str, str]
    """order, plan, place … as text, for the record."""
    cluster: Cluster
    outcomes: list[Outcome]
    samples: ClusterSamples
    cycles: int = 0
    wall_s: float = 0.0
    moved_reservations: list[tuple[str, int, int, str]] = field(default_factory=list)
    """(job, reserved start, new start, why) for each reservation that moved later."""
    late_us: dict[str, int] = field(default_factory=dict)
    """For each job that had a reservation: how much later than first reserved it started (0: not later)."""
    head_delay_us: dict[str, int] = field(default_factory=dict)
    """For each head of the queue: how much later it started than if no job behind it had started before it."""
    skipped_lines: int = 0
    modes: list[tuple[int, str, str]] = field(default_factory=list)
    """(time, mode, why) for each mode that an automatic mode chose."""
