"""What the cycle returns. Engines carry it out; nothing else changes the world."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Reason


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


Decision = Start | Preempt | Stop | Refuse | Resize
