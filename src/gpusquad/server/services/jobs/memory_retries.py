"""More memory for the next attempt of a job whose memory the service chose and which ran out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from gpusquad.model.codec import job_to_dict
from gpusquad.model.job import Job
from gpusquad.predict.host_advice import rounded_bytes, size_text
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.advice import Choice
from gpusquad.server.services.jobs.killed_runs import FACTOR, OUT_OF_MEMORY, requested_bytes, role_of
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.spec.auto import parts_of, with_choices
from gpusquad.spec.check import spec_from_dict, spec_to_dict
from gpusquad.store.jobs import JobRow


def raise_memory(context: SchedulerContext, unit: UnitOfWork, row: JobRow, result: dict[str, Any] | None) -> str:
    """Request twice the memory if the kernel killed a task for lack of it. Returns what is added to the cause of the
    retry; empty if nothing changes. A number that the user wrote is never changed.
    """
    job = context.job(row.id)
    chosen = _choice_of(row, job, (result or {}).get("task"))
    if chosen is None or not (result or {}).get("oom"):
        return ""
    role, _ = parts_of(chosen["field"])
    before = requested_bytes(job, role)
    largest = max((node.memory_bytes for node in context.fixed.cluster.nodes), default=0)
    wanted = min(rounded_bytes(FACTOR * before), largest or FACTOR * before)
    if not before or wanted <= before:
        return f"; memory stays at {size_text(before)}, because no node has more" if before else ""
    why = f"attempt {row.attempt + 1} ran out of {size_text(before)}"
    choice = Choice(chosen["field"], size_text(wanted), wanted, OUT_OF_MEMORY, why)
    roles = tuple(
        replace(one, request=replace(one.request, memory_bytes=wanted)) if role in (None, at) else one
        for at, one in enumerate(job.roles)
    )
    context.jobs[row.id] = job = replace(job, roles=roles)
    resolved = dict(row.resolved or {})
    resolved["choices"] = [asdict(choice) if one["field"] == choice.field else one for one in resolved["choices"]]
    spec = spec_to_dict(with_choices(spec_from_dict(dict(row.spec)), **{choice.field: choice.value}))
    unit.change(row.id, spec=spec, core=job_to_dict(job), resolved=resolved)
    unit.record(row.id, "advised", choice.note.text, data=choice.note.data)
    return f"; the next attempt requests {choice.value} of memory"


def memory_choices(row: JobRow) -> list[Mapping[str, Any]]:
    """The choices of the job's main memory. Empty: its user wrote numbers, or none."""
    choices = (row.resolved or {}).get("choices") or ()
    return [one for one in choices if parts_of(one["field"])[1] == "memory" and one["value"] is not None]


def _choice_of(row: JobRow, job: Job, task: int | None) -> Mapping[str, Any] | None:
    """The choice that applies to the task."""
    role = role_of(job, task)
    return next((one for one in memory_choices(row) if parts_of(one["field"])[0] in (None, role)), None)
