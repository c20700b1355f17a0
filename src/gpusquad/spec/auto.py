"""``auto`` in a job file: a number that the service chooses when it accepts the job."""

from __future__ import annotations

from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.spec.amounts import AUTO
from gpusquad.spec.model import JobFields, JobSpec

FIELDS = ("gpus", "gpu_memory", "cpu", "memory")
"""In the order in which they are chosen: the share of a node depends on the number of GPUs."""


def auto_fields(job: JobFields) -> tuple[str, ...]:
    """Names of the fields that are ``auto``."""
    return tuple(name for name in FIELDS if getattr(job, name) == AUTO)


def check_auto(job: JobFields) -> None:
    """Refuse ``auto`` where the service cannot choose a number."""
    for index, role in enumerate(job.roles or ()):
        for name in FIELDS:
            if getattr(role, name) == AUTO:
                raise Invalid(f"roles[{index}].{name}", "cannot be auto in a job with roles", "write a number")
    if job.gpu_memory == AUTO and not job.gpus:
        raise Invalid(
            "gpu_memory", "auto requires whole GPUs", "add gpus; for a part of a card write share: {memory: …}"
        )
    if job.gpus == AUTO and (job.min is not None or job.max is not None):
        raise Invalid("gpus", "auto requires a fixed number of tasks", "leave out min and max, or write a number")
    if job.gpus == AUTO and job.card is not None:
        raise Invalid("gpus", "auto cannot be combined with a named card", "write gpus: 1")
    if job.roles is not None and (names := auto_fields(job)):
        raise Invalid(names[0], "cannot be auto in a job with roles", "write a number in each role")


def with_choices(spec: JobSpec, **chosen: Any) -> JobSpec:
    """A copy of the job with the chosen values. None leaves the field out."""
    return spec.model_copy(update=chosen) if chosen else spec


def restore_auto(stored: dict[str, Any], asked: JobSpec) -> dict[str, Any]:
    """Stored data with ``auto`` restored where ``asked`` has it, so that a repeated submission compares equal."""
    return stored | dict.fromkeys(auto_fields(asked), AUTO)
