"""Helpers for tests of engines: short launches, reports to wait for, and a pipe for messages from tasks."""

from __future__ import annotations

import os
import select
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Engine, Launch, Report, TaskLaunch

TIMEOUT_S = 60.0
"""Long, because the machine may be busy; reached only on failure."""


def launch(job_id: str, *commands: str | Sequence[str], attempt: int = 0, **changes: Any) -> Launch:
    """A gang with one task per command; the shell runs strings. ``changes`` override fields of tasks and launch."""
    task_changes = {
        name: changes.pop(name) for name in ("cards", "cpu_milli", "memory_bytes", "env") if name in changes
    }
    tasks = tuple(
        TaskLaunch(rank, "worker", rank, "node", command=_arguments(command), **{"cards": (), **task_changes})
        for rank, command in enumerate(commands)
    )
    fields = {"name": "test", "tenant": "default", "user": "me", "workdir": "/", "grace_s": 10.0, **changes}
    return Launch(job_id, attempt, tasks=fields.pop("tasks", tasks), **fields)


def _arguments(command: str | Sequence[str]) -> tuple[str, ...]:
    return ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)


@dataclass
class Reports:
    """Receives the reports of an engine; tests can wait for them."""

    all: list[Report] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, report: Report) -> None:
        with self._changed:
            self.all.append(report)
            self._changed.notify_all()

    def started(self, job_id: str, attempt: int = 0) -> AttemptStarted:
        return self._first(AttemptStarted, job_id, attempt)

    def ended(self, job_id: str, attempt: int = 0) -> AttemptEnded:
        return self._first(AttemptEnded, job_id, attempt)

    def ends(self, job_id: str, attempt: int = 0) -> list[AttemptEnded]:
        """All ends of that attempt so far."""
        with self._changed:
            return [r for r in self.all if isinstance(r, AttemptEnded) and (r.job_id, r.attempt) == (job_id, attempt)]

    def wait(self, enough: Callable[[list[Report]], Any]) -> Any:
        """Wait until ``enough`` is true for the reports so far and return its value."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self.all), TIMEOUT_S):
                raise TimeoutError(f"only these reports came: {self.all}")
            return enough(self.all)

    def _first(self, kind: type, job_id: str, attempt: int) -> Any:
        def find(reports: list[Report]) -> Report | None:
            matching = (r for r in reports if (r.job_id, r.attempt) == (job_id, attempt))
            return next((r for r in matching if isinstance(r, kind)), None)

        return self.wait(find)


class TaskPipe:
    """Named pipe through which tasks send lines to the test: ``echo here > $PIPE``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path, 0o666)
        os.chmod(path, 0o666)
        # Open for both, so that opening does not block and the pipe stays open when a writer exits.
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._text = ""

    def next(self) -> str:
        """The next line."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while "\n" not in self._text:
            if not select.select([self._handle], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                raise TimeoutError("no task has said anything")
            self._text += os.read(self._handle, 65536).decode()
        line, _, self._text = self._text.partition("\n")
        return line

    def close(self) -> None:
        os.close(self._handle)


def saver(pipe: TaskPipe, exit_code: int = 0) -> str:
    """Shell command of a program that writes "ready", takes a moment to save on SIGTERM and writes "saved".

    It is in Python, because a shell that starts a child while it gets SIGTERM may not pass the signal on.
    """
    program = (
        "import os, signal, time\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        f"news = open({str(pipe.path)!r}, 'w', buffering=1)\n"
        "print('ready', file=news)\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "time.sleep(0.3)\n"
        "print('saved', file=news)\n"
        f"os._exit({exit_code})\n"
    )
    return shlex.join([sys.executable, "-I", "-S", "-c", program])


def eventually(condition: Callable[[], Any]) -> None:
    """Poll for conditions that no report announces, such as files and processes."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError("that has not come true")
        time.sleep(0.005)


def lines(path: Path) -> list[str]:
    """Lines of a file that may not exist yet."""
    return path.read_text(errors="surrogateescape").splitlines() if path.exists() else []


@dataclass
class Bench:
    """An engine that can be restarted, with all its reports."""

    make: Callable[[Callable[[Report], None]], Engine]
    folder: Path
    reports: Reports = field(default_factory=Reports)
    engine: Engine = field(init=False)
    _pipes: list[TaskPipe] = field(default_factory=list)
    _launched: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.make(self.reports)

    def launch(self, job_id: str, *commands: str | Sequence[str], **changes: Any) -> Launch:
        gang = launch(job_id, *commands, **changes)
        self.engine.launch(gang)
        self._launched.append((gang.job_id, gang.attempt))
        return gang

    def restart(self) -> Reports:
        """Replace the engine by a new one with the same home and return the new reports."""
        self.engine.close()
        self.reports = Reports()
        self.engine = self.make(self.reports)
        return self.reports

    def pipe(self, name: str = "news") -> TaskPipe:
        self._pipes.append(TaskPipe(self.folder / name))
        return self._pipes[-1]

    def close(self) -> None:
        """Stop everything that was launched."""
        final = Reports()
        self.engine.close()
        self.engine = self.make(final)
        for key in self._launched:
            self.engine.stop(*key, "the test is over", 0.0)
        for key in self._launched:
            final.ended(*key)
        self.engine.close()
        for pipe in self._pipes:
            pipe.close()
