"""The start of a gang: every task prepares itself, then all run or none."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from gpusquad.engines.local.supervisor import child, outcomes
from gpusquad.engines.local.supervisor.gang import ProcessGang, Task
from gpusquad.engines.local.supervisor.inbox import Inbox
from gpusquad.engines.local.supervisor.poll import wait


class GangStart:
    """What the tasks have reported so far."""

    def __init__(self, gang: ProcessGang, inbox: Inbox, grace_s: float) -> None:
        self.notes: list[str] = []
        self._gang = gang
        self._inbox = inbox
        self._grace_s = grace_s
        self._ready: set[int] = set()
        self._open: dict[int, Task] = {}
        self._text: dict[int, str] = {}
        self._problem: tuple[Task, str] | None = None

    def to_barrier(self) -> dict | None:
        """Wait until all tasks are ready. Returns the outcome if one failed: then nothing has run."""
        if self._inbox.stop is None:
            self._gang.fork()
        self._open = {task.report: task for task in self._gang.tasks}
        self._hear_until(lambda: len(self._ready) == len(self._gang.tasks))
        if self._problem is not None:
            return self._give_up(self._cannot_start(never_started=True))
        if self._inbox.stop is not None:
            how = "lost" if self._inbox.told_from_outside else "stopped"
            return self._give_up(outcomes.end(how, self._inbox.stop.cause, never_started=True))
        return None

    def over_barrier(self) -> dict | None:
        """Wait until all tasks run the users' programs. If one fails here, others may have run."""
        self._gang.release()
        self._hear_until(lambda: not self._open)
        for handle in list(self._open):
            self._close(handle)
        return self._cannot_start(never_started=False) if self._problem is not None else None

    def _hear_until(self, done: Callable[[], bool]) -> None:
        while not done() and self._problem is None and self._inbox.stop is None:
            heard = wait([*self._open, self._inbox.pipe], None)
            if self._inbox.pipe in heard:
                self._inbox.take(self._grace_s)
            for handle in heard & self._open.keys():
                self._hear(handle)

    def _hear(self, handle: int) -> None:
        task = self._open[handle]
        data = os.read(handle, 65536).decode("utf-8", "replace")
        *lines, rest = (self._text.get(handle, "") + data).split("\n")
        self._text[handle] = rest
        for line in lines:
            self._understand(task, line)
        if not data:
            self._close(handle)
            if task.order.rank not in self._ready:
                out = self._gang.out_of_memory(task)
                self._fail(task, "it ran out of memory at once" if out else "it ended before it was ready")

    def _understand(self, task: Task, line: str) -> None:
        if line == child.READY:
            self._ready.add(task.order.rank)
        elif line.startswith(child.NOTE):
            self.notes.append(line.removeprefix(child.NOTE))
        elif line.startswith(child.ERROR):
            self._fail(task, line.removeprefix(child.ERROR))

    def _fail(self, task: Task, why: str) -> None:
        """The first reason counts."""
        self._problem = self._problem or (task, why)

    def _cannot_start(self, never_started: bool) -> dict:
        assert self._problem is not None
        task, why = self._problem
        return outcomes.cannot_start(task.order.rank, task.order.label, why, never_started)

    def _give_up(self, end: dict) -> dict:
        """No task has passed the barrier. Kill without a warning: a child may hang in its preparation."""
        for task in self._gang.tasks:
            os.kill(task.pid, signal.SIGKILL)
        for handle in list(self._open):
            self._close(handle)
        return end

    def _close(self, handle: int) -> None:
        del self._open[handle]
        os.close(handle)
