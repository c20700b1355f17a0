"""From a job file to jobs that may be submitted."""

from __future__ import annotations

from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.model.units import parse_us
from gpusquad.server.answers import Change, Who
from gpusquad.server.ids import new_id
from gpusquad.server.json_answer import Answer
from gpusquad.server.rights import tenant_used
from gpusquad.server.schemas.jobs import ChangeRequest, FileRequest
from gpusquad.server.views import job_view
from gpusquad.server.wiring import Services
from gpusquad.spec.check import spec_from_dict
from gpusquad.spec.expand import expand
from gpusquad.spec.model import JobSpec
from gpusquad.store.jobs import JobRow


def specs_of(request: FileRequest, who: Who, services: Services) -> list[JobSpec]:
    """Every job the file makes, checked as far as this caller is concerned."""
    specs = expand(request.file, request.params)
    tenants = [tenant_used(who, spec.tenant) for spec in specs]
    wanted = {(tenant, secret.name) for tenant, spec in zip(tenants, specs, strict=True) for secret in spec.secrets}
    for tenant, name in sorted(wanted):
        if not services.secrets.has(tenant, name):
            cure = f"set it first: gpusquad secret set {name}"
            raise Invalid("secrets", f"tenant {tenant} has no secret {name}", cure)
    return specs


def again(row: JobRow) -> JobSpec:
    """The job once more, for the tenant it was for. What it waited for is behind it."""
    return spec_from_dict(dict(row.spec)).model_copy(update={"tenant": row.tenant, "after": ()})


def submit(specs: list[JobSpec], who: Who, services: Services, key: str | None, action: str) -> Answer:
    group_id = new_id() if len(specs) > 1 else None
    rows = services.scheduler.submit(specs, who, group_id, key)
    group_id = rows[0].group_id
    told = {"jobs": len(rows), "name": rows[0].name, "tenant": rows[0].tenant}
    services.audit.record(who, action, rows[0].id if len(rows) == 1 else group_id or rows[0].id, told)
    return Answer({"group": group_id, "jobs": [job_view(row) for row in rows]}, status_code=201)


def change_of(request: ChangeRequest) -> Change:
    """What a job is changed to."""
    given: dict[str, Any] = request.model_dump(exclude_none=True)
    if not given:
        raise Invalid("body", "changes nothing", f"give one of {', '.join(ChangeRequest.model_fields)}")
    for name in ("estimate", "limit"):
        if name in given:
            given[f"{name}_us"] = parse_us(given.pop(name), name)
    return Change(**given)
