"""``auto`` in a job file: a number that the service chooses when it accepts the job.

A field of a role is named by its path: ``roles[1].cpu``.
"""

from __future__ import annotations

import re
from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.spec.amounts import AUTO
from gpusquad.spec.model import JobFields, JobSpec
from gpusquad.spec.roles import ResourcesSpec

FIELDS = ("gpus", "gpu_memory", "cpu", "memory")
"""In the order in which they are chosen: the share of a node depends on the number of GPUs."""
_PATH = re.compile(r"roles\[(\d+)\]\.(\w+)")


def auto_fields(job: JobFields) -> tuple[str, ...]:
    """Names of the fields that are ``auto``."""
    of_roles = (f"roles[{at}].{name}" for at, role in enumerate(job.roles or ()) for name in _open(role))
    return *_open(job), *of_roles


def parts_of(field: str) -> tuple[int | None, str]:
    """Index of the role, if it is a field of one, and name of the field."""
    found = _PATH.fullmatch(field)
    return (None, field) if found is None else (int(found[1]), found[2])


def check_auto(job: JobFields) -> None:
    """Refuse ``auto`` where the service cannot choose a number."""
    for index, role in enumerate(job.roles or ()):
        if role.gpus == AUTO:
            raise Invalid(f"roles[{index}].gpus", "cannot be auto in a job with roles", "write a number")
        _check_gpu_memory(role, f"roles[{index}].gpu_memory")
    _check_gpu_memory(job, "gpu_memory")
    if job.gpus == AUTO and (job.min is not None or job.max is not None):
        raise Invalid("gpus", "auto requires a fixed number of tasks", "leave out min and max, or write a number")
    if job.gpus == AUTO and job.card is not None:
        raise Invalid("gpus", "auto cannot be combined with a named card", "write gpus: 1")
    if job.roles is not None and (names := _open(job)):
        raise Invalid(names[0], "cannot be auto for all roles together", "write it in each role")


def with_choices(spec: JobSpec, **chosen: Any) -> JobSpec:
    """A copy of the job with the chosen values. None leaves the field out."""
    if not chosen:
        return spec
    of_job, of_roles = _by_role(chosen)
    if of_roles:
        roles = enumerate(spec.roles or ())
        of_job["roles"] = tuple(role.model_copy(update=of_roles.get(at, {})) for at, role in roles)
    return spec.model_copy(update=of_job)


def restore_auto(stored: dict[str, Any], asked: JobSpec) -> dict[str, Any]:
    """Stored data with ``auto`` restored where ``asked`` has it, so that a repeated submission compares equal."""
    of_job, of_roles = _by_role(dict.fromkeys(auto_fields(asked), AUTO))
    if of_roles:
        of_job["roles"] = [role | of_roles.get(at, {}) for at, role in enumerate(stored.get("roles") or ())]
    return stored | of_job


def _open(resources: ResourcesSpec | JobFields) -> tuple[str, ...]:
    return tuple(name for name in FIELDS if getattr(resources, name) == AUTO)


def _check_gpu_memory(resources: ResourcesSpec | JobFields, field: str) -> None:
    if resources.gpu_memory == AUTO and not resources.gpus:
        raise Invalid(field, "auto requires whole GPUs", "add gpus; for a part of a card write share: {memory: …}")


def _by_role(values: dict[str, Any]) -> tuple[dict[str, Any], dict[int, dict[str, Any]]]:
    """Values of the job's own fields, and of those of each role."""
    of_job: dict[str, Any] = {}
    of_roles: dict[int, dict[str, Any]] = {}
    for field, value in values.items():
        role, name = parts_of(field)
        (of_job if role is None else of_roles.setdefault(role, {}))[name] = value
    return of_job, of_roles
