"""Decisions of a scheduling cycle, which engines carry out."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Start:
    """Start all tasks of the gang now."""

    job_id: str
    placement: Placement
    cause: str


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stop a running gang for another job. It is requeued with its eligible time."""

    job_id: str
    for_job: str
    cause: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End a job that exceeded its time limit or can never run."""

    job_id: str
    cause: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Reject an infeasible job: no state of the configured cluster can run it."""

    job_id: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Resize:
    """Change the number of tasks of a running elastic gang."""

    job_id: str
    placement: Placement
    cause: str


Decision = Start | Preempt | Stop | Refuse | Resize
