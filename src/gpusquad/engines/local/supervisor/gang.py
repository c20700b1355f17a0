"""The processes of a gang: the tasks and their descendants."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from gpusquad.engines.local import processes
from gpusquad.engines.local.cgroups import TaskCgroups
from gpusquad.engines.local.supervisor import child, inbox
from gpusquad.engines.local.supervisor.launch_order import LaunchOrder, TaskLaunchOrder
from gpusquad.engines.local.supervisor.log_writer import LogWriter


class Task:
    """First process of a task: leader of its own session and process group."""

    def __init__(self, order: TaskLaunchOrder, pid: int, report: int, log: LogWriter) -> None:
        self.order = order
        self.pid = pid
        self.report = report
        """Reports until it is the user's program; then this end closes."""
        self.log = log
        self.code: int | None = None
        """Exit code; negative: a signal."""
        self.cpu_s = 0.0
        """CPU time of the process and of the descendants that it has waited for. Known at its end."""
        self.largest_bytes = 0
        """Peak memory of the largest of them."""
        self.ran_s = 0.0
        """Run time, from the barrier."""


class ProcessGang:
    """All tasks of the attempt. The supervisor reaps them, so their process ids are not reused before that."""

    def __init__(self, order: LaunchOrder, groups: TaskCgroups, logs: str, umask: int) -> None:
        self.tasks: list[Task] = []
        self._order = order
        self._groups = groups
        self._logs = logs
        self._umask = umask
        self._go_child, self._go = os.pipe2(os.O_CLOEXEC)
        self._released_s = 0.0

    def fork(self) -> None:
        """Fork all tasks; each stops at the barrier."""
        inbox.block_signals()
        try:
            for order in self._order.tasks:
                self.tasks.append(self._fork(order))
        finally:
            inbox.unblock_signals()
            os.close(self._go_child)

    def release(self) -> None:
        """Let all tasks run the users' programs."""
        self._released_s = time.monotonic()
        os.write(self._go, child.GO * len(self.tasks))

    def identities(self) -> list[list[int]]:
        """Process id and start time of each."""
        found = [processes.stat(task.pid) for task in self.tasks]
        return [[task.pid, one.start_ticks if one else 0] for task, one in zip(self.tasks, found, strict=True)]

    def reap(self) -> list[Task]:
        """Tasks that ended since the last call, in order of notification. Orphans adopted by the supervisor are reaped
        too.
        """
        ended = []
        by_pid = {task.pid: task for task in self.tasks if task.code is None}
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid in by_pid:
                    task = by_pid[pid]
                    task.code = os.waitstatus_to_exitcode(status)
                    task.cpu_s, task.largest_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
                    task.ran_s = time.monotonic() - self._released_s
                    ended.append(task)
        return ended

    def usage(self) -> dict | None:
        """What the largest task used, as `core.ports.TaskUsage`. Call it before the control groups are removed. None:
        no task has run.
        """
        over = [task for task in self.tasks if task.ran_s > 0.0]
        if not self._released_s or not over:
            return None
        return {
            "cpu_milli": max(round(1000 * task.cpu_s / task.ran_s) for task in over),
            "largest_bytes": max(task.largest_bytes for task in over),
            "group_bytes": max(self._groups.peak_bytes(task.order.rank) for task in over),
        }

    def out_of_memory(self, task: Task) -> bool:
        return self._groups.oom_kills(task.order.rank) > 0

    def terminate(self) -> None:
        """Ask every task to end: its whole process group, and what remains of groups whose leader has ended."""
        for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped process could not handle the signal
            for task in self.tasks:
                if task.code is None:
                    with contextlib.suppress(PermissionError):
                        os.killpg(task.pid, number)
            for one in self._left_in_sessions():
                _signal(one, number)

    def is_at_work(self) -> bool:
        """Whether a process in the tasks' sessions still runs. A shell dies at once while its child may still be
        saving.
        """
        return any(task.code is None for task in self.tasks) or bool(self._left_in_sessions())

    def kill(self) -> tuple[list[int], list[int]]:
        """Kill all descendants. Returns those that remain, and those of them that we may not kill."""
        self._groups.kill()
        spared = {one.pid for one in self._descendants() if not _signal(one, signal.SIGKILL)}
        left = {one.pid for one in self._descendants()} | self._groups.pids()
        return sorted(left), sorted(spared & left)

    def _fork(self, order: TaskLaunchOrder) -> Task:
        output, output_child = os.pipe2(os.O_CLOEXEC)
        report, report_child = os.pipe2(os.O_CLOEXEC)
        if self._order.run_as is not None:
            with contextlib.suppress(OSError):
                os.fchown(output_child, *self._order.run_as)  # otherwise its user cannot open /dev/stdout
        supervisor = os.getpid()
        pid = os.fork()
        if pid == 0:
            # Otherwise a waiting child would never see the supervisor's end of the barrier close.
            os.close(self._go)
            ends = child.PipeEnds(output_child, report_child, self._go_child)
            child.become(order, self._order, self._groups, ends, supervisor, self._umask)
        os.close(output_child)
        os.close(report_child)
        os.set_blocking(report, False)
        log = LogWriter(self._logs, order.rank, output, self._order.log_bytes, self._order.log_segment_bytes)
        return Task(order, pid, report, log)

    def _descendants(self) -> list[processes.ProcStat]:
        """Orphans become children of the supervisor, so without children there are no descendants and no need to scan
        /proc.
        """
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return []
        return [one for one in processes.descendants(os.getpid()) if not one.is_over]

    def _left_in_sessions(self) -> list[processes.ProcStat]:
        ended = {task.pid for task in self.tasks if task.code is not None}
        return [one for one in self._descendants() if one.session in ended] if ended else []


def _signal(one: processes.ProcStat, number: int) -> bool:
    """False: we may not signal it."""
    try:
        processes.kill(processes.ProcessIdentity(one.pid, one.start_ticks, processes.boot_id()), number)
    except PermissionError:
        return False
    return True
