"""Builds the launch order for a supervisor."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.frameworks import Alone, Gang
from gpusquad.engines.local import environment
from gpusquad.engines.local.names import checkpoint_path, run_path
from gpusquad.engines.local.shares import NO_PARTS, ShareEnvironment
from gpusquad.engines.local.supervisor.launch_order import END_MARK
from gpusquad.model.errors import Invalid

MIB = 2**20


@dataclass(frozen=True, slots=True)
class LogLimits:
    """How much of the tasks' output is kept: the newest."""

    task_bytes: int = 128 * MIB
    attempt_bytes: int = 1024 * MIB
    """For all tasks together, in equal parts."""
    segments: int = 8
    """Number of files per log: the oldest is deleted when a new one starts."""

    def __post_init__(self) -> None:
        if min(self.task_bytes, self.attempt_bytes) < 1 or self.segments < 2:
            raise Invalid("log_limits", "are too small", "at least one byte and two segments")

    def of_task(self, tasks: int) -> tuple[int, int]:
        """Bytes of one log, and of one file of it."""
        segment_bytes = max(1, min(self.task_bytes, self.attempt_bytes // tasks) // self.segments)
        return segment_bytes * self.segments, segment_bytes


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """What a launch itself does not contain."""

    home: Path
    limits: LogLimits
    own: Mapping[str, str]
    """The service's own environment variables."""
    uuid_of: Callable[[str], str]


def check(launch: Launch) -> None:
    """Ranks become file names, so they are checked."""
    if not launch.tasks:
        raise Invalid("tasks", "a gang needs at least one task")
    if [task.index for task in launch.tasks] != list(range(len(launch.tasks))):
        raise Invalid("tasks", "ranks are not 0, 1, 2 … in order")


def encode(launch: Launch, ports: Sequence[int], around: LaunchContext, parts: ShareEnvironment = NO_PARTS) -> bytes:
    """Complete once the end mark is there."""
    gang = environment.gang_of(launch, around.home, ports)
    log_bytes, segment_bytes = around.limits.of_task(len(launch.tasks))
    folder = run_path(around.home, launch.job_id, launch.attempt)
    body = {
        "job_id": launch.job_id,
        "attempt": launch.attempt,
        "workdir": launch.workdir or environment.home_folder(around.own, launch.run_as),
        "grace_s": max(0.0, launch.grace_s),
        "run_as": launch.run_as,
        "ports": list(ports),
        "writable": [str(checkpoint_path(around.home, launch.job_id)), str(folder / "progress")],
        "log_bytes": log_bytes,
        "log_segment_bytes": segment_bytes,
        "notes": list(parts.notes),
        "tasks": [_task(launch, task, gang, around, parts) for task in launch.tasks],
    }
    return json.dumps(body).encode() + END_MARK


def _task(launch: Launch, task: TaskLaunch, gang: Gang | Alone, around: LaunchContext, parts: ShareEnvironment) -> dict:
    part = parts.env.get(task.index, {})
    return {
        "rank": task.index,
        "label": f"{task.role} {task.role_index}",
        "command": list(task.command),
        "env": environment.variables(launch, task, around.home, gang, around.own, around.uuid_of, part),
        "cpu_milli": task.cpu_milli,
        "memory_bytes": task.memory_bytes,
    }
