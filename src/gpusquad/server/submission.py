"""Converts a job file to jobs that can be submitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields
from gpusquad.model.units import parse_us
from gpusquad.server.answers import PEAK, JobChange, Who
from gpusquad.server.errors import Conflict
from gpusquad.server.ids import new_id
from gpusquad.server.json_answer import Answer
from gpusquad.server.permissions import tenant_used
from gpusquad.server.schemas.jobs import ChangeRequest, FileRequest
from gpusquad.server.services.jobs.advice import Note
from gpusquad.server.services.jobs.cluster_submissions import NOT_COMPLETE
from gpusquad.server.services.jobs.memory_retries import memory_choices
from gpusquad.server.views import job_view
from gpusquad.server.wiring import Services
from gpusquad.spec.amounts import AUTO
from gpusquad.spec.auto import auto_fields, with_choices
from gpusquad.spec.check import spec_from_dict
from gpusquad.spec.expand import expand
from gpusquad.spec.model import JobSpec
from gpusquad.store import events
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow

MAX_EXAMINED = 20
"""Jobs of a sweep whose first events are read for the answer."""
FIRST_LINES = 4
"""First events of a job: submitted, two choices, a warning."""


def specs_of(request: FileRequest, who: Who, services: Services) -> list[JobSpec]:
    """Every job of the file, checked for this caller."""
    specs = expand(request.file, request.params)
    tenants = [tenant_used(who, spec.tenant) for spec in specs]
    wanted = {(tenant, secret.name) for tenant, spec in zip(tenants, specs, strict=True) for secret in spec.secrets}
    for tenant, name in sorted(wanted):
        if not services.secrets.has(tenant, name):
            cure = f"set it first: gpusquad secret set {name}"
            raise Invalid("secrets", f"tenant {tenant} has no secret {name}", cure)
    return specs


def again(row: JobRow) -> JobSpec:
    """The same job for the same tenant, without its dependencies, which have ended. If it was killed for lack of the
    memory that ``auto`` chose, ``auto`` chooses again.
    """
    if not row.spec:
        raise Conflict(f"job {row.id} was not submitted here", cure="create its objects in the cluster again")
    spec = spec_from_dict(dict(row.spec)).model_copy(update={"tenant": row.tenant, "after": ()})
    killed = bool((row.result or {}).get("oom"))
    return with_choices(spec, **{one["field"]: AUTO for one in memory_choices(row)}) if killed else spec


def submit(specs: list[JobSpec], who: Who, services: Services, key: str | None, action: str) -> Answer:
    group_id = new_id() if len(specs) > 1 else None
    rows = services.scheduler.submit(specs, who, group_id, key)
    group_id = rows[0].group_id
    seen = {"jobs": len(rows), "name": rows[0].name, "tenant": rows[0].tenant}
    services.audit.record(who, action, rows[0].id if len(rows) == 1 else group_id or rows[0].id, seen)
    missing = [Note("warned", f"{row.name}: {row.cause}") for row in rows if row.cause.startswith(NOT_COMPLETE)]
    notes = [*_notes(rows, specs, services), *missing]
    seen = {"group": group_id, "jobs": [job_view(row) for row in rows]} | notes_view(notes)
    return Answer(seen, status_code=201)


def notes_view(notes: Iterable[Note | EventRow]) -> dict[str, list[str]]:
    """Each once: the jobs of a sweep have the same notes."""
    lines = [(note.kind, note.text if isinstance(note, Note) else note.cause) for note in notes]
    return {name: list(dict.fromkeys(text for kind, text in lines if kind == wanted))
            for name, wanted in (("chosen", "advised"), ("warnings", "warned"))}  # fmt: skip


def _notes(rows: Sequence[JobRow], specs: Sequence[JobSpec], services: Services) -> list[EventRow]:
    """From the stored events, so that a repeated submission gets the same answer."""
    if not any(auto_fields(spec) or spec.gpu_memory or spec.share or spec.roles or spec.image for spec in specs):
        return []
    with services.database.read() as c:
        return [event for row in rows[:MAX_EXAMINED] for event in events.of_job(c, row.id, limit=FIRST_LINES)]


def change_of(request: ChangeRequest) -> JobChange:
    """Job change of a request."""
    given: dict[str, Any] = request.model_dump(exclude_none=True)
    if not given:
        raise Invalid("body", "changes nothing", f"set one of {', '.join(ChangeRequest.model_fields)}")
    for name in ("estimate", "limit"):
        if name in given:
            given[f"{name}_us"] = parse_us(given.pop(name), name)
    if given.get("memory", PEAK) != PEAK:
        amount, milli = Fields({"memory": given["memory"]}, "", ("memory",)).bytes_or_milli("memory")
        given |= {"memory": None, "memory_milli": milli} if milli else {"memory": amount}
    return JobChange(**given)
