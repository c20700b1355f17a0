"""Validates job files and concrete jobs. The first error is raised as ``Invalid``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import ValidationError

from gpusquad.model.codec import job_from_dict
from gpusquad.model.errors import Invalid
from gpusquad.spec.amounts import CONCRETE, MAX_TASKS
from gpusquad.spec.auto import check_auto
from gpusquad.spec.convert import core_data
from gpusquad.spec.model import JobFields, JobFile, JobSpec
from gpusquad.spec.paths import at, key_text, short
from gpusquad.spec.placeholders import MARK, check_names, marked_texts
from gpusquad.spec.sweep import INDEX, swept_names

_Fields = TypeVar("_Fields", bound=JobFields)


def check(data: dict) -> JobFile:
    """Validate a job file. Fields with placeholders are validated again when they are filled."""
    file = _validated(JobFile, data)
    _check_commands(file)
    check_auto(file)
    marked = list(marked_texts(open_data(file)))
    known = known_names(file)
    for where, text in marked:
        try:
            check_names(text, known)
        except Invalid as error:
            raise at(where, error) from None
    core = core_data(file)
    if not marked or MARK not in repr(core):
        _check_whole(core)
    return file


def known_names(file: JobFile) -> set[str]:
    """Names that placeholders of this file may use."""
    return {*file.params, *swept_names(file.sweep), *([INDEX] if file.sweep else [])}


def open_data(file: JobFile) -> dict:
    """The file as plain data, with placeholders and without parameters and sweep."""
    return file.model_dump(exclude={"version", "params", "sweep"}, exclude_defaults=True, by_alias=True)


def spec_to_dict(spec: JobSpec) -> dict:
    """A concrete job as JSON data with job-file field names. Defaults are omitted."""
    return spec.model_dump(mode="json", exclude_defaults=True, by_alias=True)


def spec_from_dict(data: dict) -> JobSpec:
    """Validate a concrete job, as written by ``spec_to_dict``."""
    spec = _validated(JobSpec, data, CONCRETE)
    _check_commands(spec)
    check_auto(spec)
    _check_whole(core_data(spec))
    return spec


def _validated(kind: type[_Fields], data: dict, context: Any = None) -> _Fields:
    try:
        return kind.model_validate(data, context=context)
    except ValidationError as error:
        raise _as_invalid(error) from None


def _check_commands(job: JobFields) -> None:
    if job.command is not None:
        return
    if job.roles is None:
        raise Invalid("command", "is missing", "write for example command: [python3, train.py]")
    for index, role in enumerate(job.roles):
        if role.command is None:
            raise Invalid(f"roles[{index}].command", "is missing", "add a command to the role or to the job")


def _check_whole(core: dict) -> None:
    """Constraints between fields, which the scheduler's own parser checks."""
    job = job_from_dict(core | {"id": "-"})
    tasks = sum(role.bounds[1] for role in job.roles)
    if tasks > MAX_TASKS:
        raise Invalid(
            "roles" if "roles" in core else "count", f"has {tasks} tasks in one job", f"use at most {MAX_TASKS}"
        )


def _as_invalid(error: ValidationError) -> Invalid:
    """The first error as ``Invalid``."""
    first = error.errors(include_url=False)[0]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{key_text(part)}" for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Invalid):
        return at(where.removeprefix("."), cause)
    convert = _ERRORS.get(first["type"], lambda found: Invalid("", found["msg"]))
    return at(where.removeprefix("."), convert(first))


_ERRORS: dict[str, Callable[[Any], Invalid]] = {
    "missing": lambda found: Invalid("", "is missing"),
    "bool_type": lambda found: Invalid("", f"must be true or false, not {short(found['input'])}"),
    "tuple_type": lambda found: Invalid("", f"must be a list, not {short(found['input'])}", "put it in [ ]"),
    "too_long": lambda found: Invalid("", "has too many entries", f"use at most {found['ctx']['max_length']}"),
    "too_short": lambda found: Invalid("", "is empty", "add at least one entry, or leave out the field"),
}
