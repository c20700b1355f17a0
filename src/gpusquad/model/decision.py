"""What the cycle returns. Engines carry it out; nothing else changes the world."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Code, Reason


@dataclass(frozen=True, slots=True)
class Start:
    """Start the whole gang there, now."""

    job_id: str
    placement: Placement
    cause: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """Take a running gang off its cards; it queues again with its submit time."""

    job_id: str
    for_job: str
    cause: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a gang for good: over its limit, or never able to run."""

    job_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Not admitted: no state of the configured cluster could run it."""

    job_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Resize:
    """Run an elastic gang on another number of tasks from now on."""

    job_id: str
    placement: Placement
    cause: str


@dataclass(frozen=True, slots=True)
class Hold:
    """Stays pending: one code and a number; ``explain`` has the rest."""

    job_id: str
    code: Code
    number: float = 0.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """The promise to a waiting gang: these cards, from this instant."""

    job_id: str
    start_us: int
    end_us: int
    placement: Placement | None
    """None while any cards will do (tasks that need one idle card and nothing else)."""
    promised_us: int
    """The start first promised; later moves are measured against it."""


Decision = Start | Preempt | Stop | Refuse | Resize | Hold
