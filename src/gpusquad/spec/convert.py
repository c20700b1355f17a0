"""Converts a concrete job to the scheduler's ``Job`` and to the engine's task commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.model.codec import job_from_dict
from gpusquad.model.fields import MAX_TEXT, Fields, seconds
from gpusquad.model.job import Job, Role
from gpusquad.model.units import US_PER_S
from gpusquad.spec.amounts import AUTO
from gpusquad.spec.job_parts import RetryOn
from gpusquad.spec.model import JobFields, JobSpec

DEFAULT_GRACE_S = 30.0
DEFAULT_ESTIMATOR_S = 60.0
SHELL = ("/bin/sh", "-c")

_CORE = {
    "queue", "lane", "app", "priority", "estimate", "limit", "slo", "profile", "checkpoint", "expect", "roles",
    "gpus", "count", "min", "max", "share", "cpu", "memory", "gpu_model", "gpu_memory", "card",
}  # fmt: skip
_LEAST = {"cpu": 1, "memory": "64MiB"}
"""What ``auto`` counts for until it is chosen, in a job without GPUs: it must request something."""
_NOT_CORE = {"checkpoint": {"grace"}, "expect": {"by", "timeout"}, "roles": {"__all__": {"command", "env"}}}


@dataclass(frozen=True, slots=True)
class TaskCommand:
    """Command of one task. Its rank is its index in the list of commands."""

    role: str
    role_index: int
    group: int
    """Index in ``Job.groups``. Roles with equal requests share a group."""
    command: tuple[str, ...]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RetryRule:
    """When and how often a job is retried."""

    count: int = 0
    backoff_s: float = 0.0
    on: tuple[RetryOn, ...] = ()


def to_job(spec: JobSpec, id: str, submitted_us: int, tenant: str, user: str) -> Job:  # noqa: A002
    """The scheduler's job. ``tenant`` and ``user`` must have been authorised."""
    outside = {
        "id": id,
        "name": printable(spec.name),
        "command": command_text(spec),
        "tenant": tenant,
        "user": user,
        "submitted": seconds(submitted_us),
    }
    return job_from_dict(core_data(spec) | outside)


def core_data(job: JobFields) -> dict:
    """The fields that ``model.codec`` reads. ``auto`` becomes one GPU of any memory size, without limits of the host's
    CPU and memory. An estimator's answer is missing until it has run.
    """
    data = job.model_dump(include=_CORE, exclude=_NOT_CORE, exclude_none=True, exclude_defaults=True)
    for resources in (data, *data.get("roles", ())):
        _fill_auto(resources)
    if data.get("expect") == {}:
        del data["expect"]
    return data


def _fill_auto(resources: dict) -> None:
    if resources.get("gpus") == AUTO:
        resources["gpus"] = 1
    if resources.get("gpu_memory") == AUTO:
        del resources["gpu_memory"]
    for name, least in _LEAST.items():
        if resources.get(name) == AUTO:
            del resources[name]
            if not resources.get("gpus") and "share" not in resources:
                resources[name] = least


def task_commands(spec: JobSpec, sizes: Sequence[int] | None = None) -> list[TaskCommand]:
    """All tasks in the order of the roles. ``sizes``: placed tasks of each group; None: as requested."""
    job = job_from_dict(core_data(spec) | {"id": "-"})
    return [
        TaskCommand(role.name, index, group, *program)
        for (role, group, count), program in zip(placed_roles(job, sizes), _programs(spec), strict=True)
        for index in range(count)
    ]


def placed_roles(job: Job, sizes: Sequence[int] | None = None) -> list[tuple[Role, int, int]]:
    """Each role with its index in ``Job.groups`` and its number of tasks.

    Elastic roles that share a group are filled up to ``min``, then up to ``count``, then up to ``max``.
    """
    group_of = {request: index for index, (request, _) in enumerate(job.groups)}
    groups = [group_of[role.request] for role in job.roles]
    if sizes is None:
        return [(role, group, role.count) for role, group in zip(job.roles, groups, strict=True)]
    counts, left = [0] * len(groups), list(sizes)
    for wanted in (lambda role: role.bounds[0], lambda role: role.count, lambda role: role.bounds[1]):
        for index, (role, group) in enumerate(zip(job.roles, groups, strict=True)):
            more = min(wanted(role) - counts[index], left[group])
            counts[index] += more
            left[group] -= more
    return list(zip(job.roles, groups, counts, strict=True))


def grace_s(spec: JobFields) -> float:
    """Seconds between SIGTERM and SIGKILL."""
    if spec.checkpoint is None or spec.checkpoint.grace is None:
        return DEFAULT_GRACE_S
    return _seconds(spec.checkpoint.grace)


def estimator_argv(spec: JobFields) -> tuple[str, ...]:
    """The program that computes the offline estimate. Empty: none."""
    return _argv(spec.expect.by) if spec.expect is not None else ()


def estimator_timeout_s(spec: JobFields) -> float:
    """Its time limit."""
    given = spec.expect.timeout if spec.expect is not None else None
    return DEFAULT_ESTIMATOR_S if given is None else _seconds(given)


def retry_rule(spec: JobFields) -> RetryRule:
    if spec.retries is None:
        return RetryRule()
    return RetryRule(int(spec.retries.count), _seconds(spec.retries.backoff), spec.retries.on)


def printable(name: str) -> str:
    """A name without unprintable characters such as joiners."""
    return name if name.isprintable() else "".join(filter(str.isprintable, name))


def command_text(spec: JobFields) -> str:
    """The command on one line, truncated; used to find similar jobs. With roles: the first role that uses GPUs."""
    roles = spec.roles or ()
    first = next((role for role in roles if role.gpus or role.share), roles[0] if roles else None)
    command = (first and first.command) or spec.command or ""
    words = command.split() if isinstance(command, str) else command
    return printable(" ".join(" ".join(words).split()))[:MAX_TEXT].strip()


def _programs(spec: JobSpec) -> list[tuple[tuple[str, ...], Mapping[str, str]]]:
    """Command and environment of each role."""
    if spec.roles is None:
        return [(_argv(spec.command), spec.env)]
    return [(_argv(role.command or spec.command), {**spec.env, **role.env}) for role in spec.roles]


def _argv(command: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (*SHELL, command) if isinstance(command, str) else tuple(command or ())


def _seconds(value: float | str) -> float:
    return Fields({"value": value}, "", ("value",)).us("value") / US_PER_S
