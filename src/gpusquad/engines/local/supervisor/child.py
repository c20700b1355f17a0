"""A task between fork and exec: it prepares itself, reports, and waits until all others are ready."""

from __future__ import annotations

import os
import pwd
import signal
import sys

from gpusquad.engines.local.cgroup_bases import CONTROLLERS
from gpusquad.engines.local.cgroups import TaskCgroups
from gpusquad.engines.local.supervisor import inbox, programs, syscalls
from gpusquad.engines.local.supervisor.launch_order import LaunchOrder, TaskLaunchOrder
from gpusquad.engines.local.supervisor.programs import CannotStart

GO = b"g"
# Lines on the report pipe. The last two are prefixes of a message.
READY, NOTE, ERROR = "ready", "note ", "error "
_NOT_STARTED = 127
_OOM_SCORE_ADJ = 300
_MAX_REPORT_BYTES = 4000
"""Less than PIPE_BUF, so that the kernel writes a line at once."""


class PipeEnds:
    """File descriptors of the child.

    ``output``: stdout and stderr. ``report``: lines to the supervisor. ``go``: shared by all tasks; the supervisor
    writes one byte for each.
    """

    __slots__ = ("go", "output", "report")

    def __init__(self, output: int, report: int, go: int) -> None:
        self.output = output
        self.report = report
        self.go = go


def become(
    task: TaskLaunchOrder, order: LaunchOrder, groups: TaskCgroups, ends: PipeEnds, supervisor_pid: int, umask: int
) -> None:
    """Never returns: the process becomes the task or ends."""
    try:
        path = _prepare(task, order, groups, ends, supervisor_pid, umask)
        _report(ends.report, READY)
        # A closed pipe means that the start was called off.
        if os.read(ends.go, 1) == GO:
            _execute(path, task)
    except CannotStart as problem:
        _report(ends.report, ERROR + str(problem))
    # Whatever it is, this copy of the supervisor must end, and the supervisor must be notified.
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        _report(ends.report, f"{ERROR}{type(error).__name__}: {error}")
    finally:
        os._exit(_NOT_STARTED)


def _prepare(
    task: TaskLaunchOrder, order: LaunchOrder, groups: TaskCgroups, ends: PipeEnds, supervisor_pid: int, umask: int
) -> str:
    """Do everything that can fail. Returns the program's path."""
    os.setsid()
    _join(groups, task, ends.report)
    _prefer_as_victim()
    _change_user(order.run_as)
    # After the change of user, which would cancel it.
    syscalls.die_with_parent(signal.SIGKILL)
    # The supervisor may have died before the line above took effect.
    if os.getppid() != supervisor_pid:
        os._exit(_NOT_STARTED)
    os.umask(umask)
    _enter(order.workdir)
    for folder in order.writable:
        if not os.access(folder, os.W_OK | os.X_OK):
            _report(ends.report, f"{NOTE}the task's user cannot write to {folder}")
    path = programs.find(task.command, task.env)
    _redirect(ends.output)
    inbox.default_signals()
    return path


def _join(groups: TaskCgroups, task: TaskLaunchOrder, report: int) -> None:
    try:
        groups.join(task.rank)
    except OSError as error:
        if any(task.limits.asks(controller) for controller in CONTROLLERS):
            _report(report, f"{NOTE}limits do not hold: task {task.rank} cannot join its cgroup: {error.strerror}")


def _prefer_as_victim() -> None:
    """If the machine runs out of memory, the kernel should kill a task rather than the supervisor or the service."""
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            if int(file.read()) < _OOM_SCORE_ADJ:
                file.seek(0)
                file.write(str(_OOM_SCORE_ADJ))
    except (OSError, ValueError):
        return


def _change_user(run_as: tuple[int, int] | None) -> None:
    if run_as is None or run_as == (os.geteuid(), os.getegid()):
        return
    user, group = run_as
    try:
        os.setgroups(_supplementary_groups(user, group))
        os.setresgid(group, group, group)
        os.setresuid(user, user, user)
    except OSError as error:
        raise CannotStart(f"it cannot become user {user}, group {group}: {error.strerror}") from error


def _supplementary_groups(user: int, group: int) -> list[int]:
    try:
        return os.getgrouplist(pwd.getpwuid(user).pw_name, group)
    except KeyError:
        return [group]


def _enter(workdir: str) -> None:
    try:
        os.chdir(workdir)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise CannotStart(f"its working folder {workdir} cannot be entered: {why}") from error


def _redirect(output: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)


def _execute(path: str, task: TaskLaunchOrder) -> None:
    try:
        os.execve(path, task.command, task.env)
    except OSError as error:
        raise CannotStart(f"{task.command[0]}: {error.strerror}") from error


def _report(report: int, line: str) -> None:
    os.write(report, line.replace("\n", " ").encode("utf-8", "replace")[:_MAX_REPORT_BYTES] + b"\n")
