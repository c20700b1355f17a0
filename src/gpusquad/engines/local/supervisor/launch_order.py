"""What the engine sends to a supervisor. It goes through a pipe, so that secrets never touch the disk."""

from __future__ import annotations

import json

from gpusquad.engines.local.cgroups import TaskLimits

END_MARK = b"\n"
"""An order without it was cut short: the service died while writing."""

STARTED, TROUBLE = b"s", b"!"
"""Answers on the supervisor's standard output: every task runs; or nothing can be started, followed by the reason."""


class TaskLaunchOrder:
    """One task. ``env`` is complete; nothing is added to it."""

    __slots__ = ("command", "env", "label", "limits", "rank")

    def __init__(self, body: dict) -> None:
        self.rank: int = body["rank"]
        self.label: str = body["label"]
        self.command: list[str] = body["command"]
        self.env: dict[str, str] = body["env"]
        self.limits = TaskLimits(body["cpu_milli"], body["memory_bytes"])


class LaunchOrder:
    """One attempt of a gang."""

    def __init__(self, body: dict) -> None:
        self.job_id: str = body["job_id"]
        self.attempt: int = body["attempt"]
        self.workdir: str = body["workdir"]
        self.grace_s: float = body["grace_s"]
        self.run_as: tuple[int, int] | None = tuple(body["run_as"]) if body["run_as"] else None
        self.ports: list[int] = body["ports"]
        self.writable: list[str] = body["writable"]
        """Folders for the tasks' output."""
        self.log_bytes: int = body["log_bytes"]
        self.log_segment_bytes: int = body["log_segment_bytes"]
        self.notes: list[str] = body["notes"]
        """What could not be done as requested, known before anything was started."""
        self.tasks = [TaskLaunchOrder(task) for task in body["tasks"]]


def decode(data: bytes) -> LaunchOrder | None:
    """None: cut short."""
    return LaunchOrder(json.loads(data)) if data.endswith(END_MARK) else None
