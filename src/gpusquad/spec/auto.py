"""``auto`` in a job file: a number that the service chooses when it accepts the job, by what it knows of such jobs."""

from __future__ import annotations

from typing import Any

from gpusquad.model.errors import Invalid
from gpusquad.spec.model import JobFields, JobSpec
from gpusquad.spec.words import AUTO

FIELDS = ("gpus", "gpu_memory")


def left_open(job: JobFields) -> tuple[str, ...]:
    """The fields that say ``auto``."""
    return tuple(name for name in FIELDS if getattr(job, name) == AUTO)


def check_auto(job: JobFields) -> None:
    """Only where the service knows what the number would be for."""
    for index, role in enumerate(job.roles or ()):
        for name in FIELDS:
            if getattr(role, name) == AUTO:
                raise Invalid(f"roles[{index}].{name}", "auto goes with jobs of one kind of task", "write a number")
    if job.gpu_memory == AUTO and not job.gpus:
        raise Invalid(
            "gpu_memory", "auto goes with whole GPUs", "add gpus; for a part of a card write share: {memory: …}"
        )
    if job.gpus == AUTO and any(value not in (None, 1, "1") for value in (job.count, job.min, job.max)):
        raise Invalid("gpus", "auto goes with a single task", "leave out count, min and max, or write a number")
    if job.gpus == AUTO and job.card is not None:
        raise Invalid("gpus", "auto goes without a named card", "write gpus: 1")


def settled(spec: JobSpec, **chosen: Any) -> JobSpec:
    """The same job with numbers for what was open. None: left out."""
    return spec.model_copy(update=chosen) if chosen else spec


def as_asked(stored: dict[str, Any], asked: JobSpec) -> dict[str, Any]:
    """What was stored, with ``auto`` again where this says so: the same words are the same submission, whatever is
    known by now."""
    return stored | dict.fromkeys(left_open(asked), AUTO)
