"""A running gang: write logs, end the gang on the first failure, carry out stop requests."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpusquad.engines.local.supervisor import outcomes
from gpusquad.engines.local.supervisor.gang import ProcessGang, Task
from gpusquad.engines.local.supervisor.inbox import Inbox
from gpusquad.engines.local.supervisor.log_writer import LogWriter
from gpusquad.engines.local.supervisor.poll import wait

_LOOK_S = 0.2
"""Poll interval while a gang ends: not every end of a descendant is signalled to us."""


class GangWatch:
    """Runs until the tasks have ended or their time is up."""

    def __init__(self, gang: ProcessGang, inbox: Inbox, grace_s: float, on_verdict: Callable[[dict], object]) -> None:
        self._gang = gang
        self._inbox = inbox
        self._grace_s = grace_s
        self._on_verdict = on_verdict
        self._verdict: dict | None = None
        self._until_s: float | None = None
        self._heeded: object = None
        self._logs: dict[int, LogWriter] = {task.log.pipe: task.log for task in gang.tasks}

    def run(self) -> dict:
        """Returns the outcome. Processes may remain."""
        while True:
            for task in self._gang.reap():
                self._ended(task)
            if self._verdict is None and all(task.code == 0 for task in self._gang.tasks):
                self._decide(outcomes.end("succeeded", "every task ended with exit code 0"), None)
            self._heed_stop()
            if self._verdict is not None and self._is_over():
                return self._verdict
            self._wait()

    def _wait(self) -> None:
        timeout_s = None if self._until_s is None else min(_LOOK_S, max(0.0, self._until_s - time.monotonic()))
        heard = wait([*self._logs, self._inbox.pipe], timeout_s)
        # Signals first: at a machine shutdown the supervisor and the tasks are signalled at once, and it is not the
        # tasks' fault.
        if self._inbox.pipe in heard:
            self._inbox.take(self._grace_s)
        for pipe in heard & self._logs.keys():
            if not self._logs[pipe].read_once():
                del self._logs[pipe]

    def _ended(self, task: Task) -> None:
        if task.code == 0 or self._verdict is not None or self._inbox.stop is not None:
            return
        order = task.order
        assert task.code is not None
        oom = self._gang.out_of_memory(task)
        self._decide(outcomes.failed(order.rank, order.label, task.code, oom, order.limits.memory_bytes), self._grace_s)

    def _heed_stop(self) -> None:
        stop = self._inbox.stop
        if stop is None or stop is self._heeded:
            return
        self._heeded = stop
        if self._verdict is None:
            how = "lost" if self._inbox.told_from_outside else "stopped"
            self._decide(outcomes.end(how, stop.cause), stop.grace_s)
        elif self._until_s is not None:
            # A second request can only shorten the remaining time.
            self._until_s = min(self._until_s, time.monotonic() + stop.grace_s)

    def _decide(self, verdict: dict, grace_s: float | None) -> None:
        """``grace_s``: time for the tasks to end by themselves; None: they have ended."""
        self._verdict = verdict
        self._on_verdict(verdict)
        if grace_s is not None:
            self._until_s = time.monotonic() + grace_s
            self._gang.terminate()

    def _is_over(self) -> bool:
        return self._until_s is None or time.monotonic() >= self._until_s or not self._gang.is_at_work()
