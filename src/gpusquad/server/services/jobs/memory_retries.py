"""More memory for the next attempt of a job whose memory the service chose and which ran out of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from gpusquad.model.codec import job_to_dict
from gpusquad.predict.host_advice import rounded_bytes, size_text
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.advice import Choice
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store.jobs import JobRow

OUT_OF_MEMORY = "out of memory"
"""Source of such a choice."""
_FACTOR = 2


def raise_memory(context: SchedulerContext, unit: UnitOfWork, row: JobRow, result: dict[str, Any] | None) -> str:
    """Request twice the memory if the kernel killed a task for lack of it. Returns what is added to the cause of the
    retry; empty if nothing changes. A number that the user wrote is never changed.
    """
    chosen = memory_choice(row)
    if chosen is None or not (result or {}).get("oom"):
        return ""
    job = context.job(row.id)
    before = max(request.memory_bytes for request, _ in job.groups)
    largest = max((node.memory_bytes for node in context.fixed.cluster.nodes), default=0)
    wanted = min(rounded_bytes(_FACTOR * before), largest or _FACTOR * before)
    if not before or wanted <= before:
        return f"; memory stays at {size_text(before)}, because no node has more" if before else ""
    why = f"attempt {row.attempt + 1} ran out of {size_text(before)}"
    choice = Choice("memory", size_text(wanted), wanted, OUT_OF_MEMORY, why)
    roles = tuple(replace(role, request=replace(role.request, memory_bytes=wanted)) for role in job.roles)
    context.jobs[row.id] = job = replace(job, roles=roles)
    resolved = dict(row.resolved or {})
    resolved["choices"] = [asdict(choice) if one["field"] == "memory" else one for one in resolved["choices"]]
    spec = dict(row.spec) | {"memory": choice.value}
    unit.change(row.id, spec=spec, core=job_to_dict(job), resolved=resolved)
    unit.record(row.id, "advised", choice.note.text, data=choice.note.data)
    return f"; the next attempt requests {choice.value} of memory"


def memory_choice(row: JobRow) -> dict[str, Any] | None:
    """The choice of the job's main memory. None: its user wrote a number, or none."""
    choices = (row.resolved or {}).get("choices") or ()
    return next((one for one in choices if one["field"] == "memory" and one["value"] is not None), None)
