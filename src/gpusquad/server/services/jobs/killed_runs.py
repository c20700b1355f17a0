"""What runs that were killed for lack of memory show about the memory that such a job needs."""

from __future__ import annotations

from gpusquad.model.job import Job
from gpusquad.spec.convert import placed_roles
from gpusquad.store.run_forecasts import PastRow

OUT_OF_MEMORY = "out of memory"
"""Source of a choice that was raised after such a run."""
FACTOR = 2
"""What the next attempt, or the next such job, requests of the memory that was not enough."""


def role_of(job: Job, task: int | None) -> int | None:
    """Index of the role of a task, by the requested numbers of tasks. None: unknown."""
    if task is None:
        return None
    for index, (_, _, count) in enumerate(placed_roles(job)):
        task -= count
        if task < 0:
            return index
    return None


def requested_bytes(job: Job, role: int | None) -> int:
    """Memory of one task of that role, or of the largest task of the job. 0: no limit."""
    return max(one.request.memory_bytes for at, one in enumerate(job.roles) if role in (None, at))


def needed_bytes(row: PastRow, job: Job) -> int:
    """Memory that the next such job should request. 0: this run was not killed for lack of it."""
    if not row.is_last or row.how not in ("failed", "held") or not (row.result or {}).get("oom"):
        return 0
    requested = requested_bytes(job, role_of(job, (row.result or {}).get("task")))
    # The job of an attempt that is tried again has been changed already.
    return requested if row.how == "held" and _was_raised(row) else FACTOR * requested


def _was_raised(row: PastRow) -> bool:
    return any(one["source"] == OUT_OF_MEMORY for one in (row.resolved or {}).get("choices") or ())
