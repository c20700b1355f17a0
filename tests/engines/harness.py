"""What tests of engines share: launches in one line, reports that can be waited for, and news from inside tasks."""

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

PATIENCE_S = 60.0
"""Generous: the machine may be busy. Nothing waits that long unless it is broken."""


def launch(job_id: str, *commands: str | Sequence[str], attempt: int = 0, **changes: Any) -> Launch:
    """A gang with one task a command; a string is for the shell. Fields of tasks and of the launch can be changed."""
    of_task = {name: changes.pop(name) for name in ("cards", "cpu_milli", "memory_bytes", "env") if name in changes}
    tasks = tuple(
        TaskLaunch(rank, "worker", rank, "node", command=_words(command), **{"cards": (), **of_task})
        for rank, command in enumerate(commands)
    )
    given = {"name": "test", "tenant": "default", "user": "me", "workdir": "/", "grace_s": 10.0, **changes}
    return Launch(job_id, attempt, tasks=given.pop("tasks", tasks), **given)


def _words(command: str | Sequence[str]) -> tuple[str, ...]:
    return ("/bin/sh", "-c", command) if isinstance(command, str) else tuple(command)


@dataclass
class Reports:
    """Takes what an engine reports; others can wait for it."""

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
        """All so far."""
        with self._changed:
            return [r for r in self.all if isinstance(r, AttemptEnded) and (r.job_id, r.attempt) == (job_id, attempt)]

    def wait(self, enough: Callable[[list[Report]], Any]) -> Any:
        """Until that is true of the reports so far; returns what it returned."""
        with self._changed:
            if not self._changed.wait_for(lambda: enough(self.all), PATIENCE_S):
                raise TimeoutError(f"only these reports came: {self.all}")
            return enough(self.all)

    def _first(self, kind: type, job_id: str, attempt: int) -> Any:
        def find(reports: list[Report]) -> Report | None:
            mine = (r for r in reports if (r.job_id, r.attempt) == (job_id, attempt))
            return next((r for r in mine if isinstance(r, kind)), None)

        return self.wait(find)


class News:
    """A named pipe through which tasks tell the test where they are: ``echo here > $PIPE``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path, 0o666)
        os.chmod(path, 0o666)
        # Both ends, so that opening does not block and a writer that leaves is not the end.
        self._handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._text = ""

    def next(self) -> str:
        """The next line."""
        until_s = time.monotonic() + PATIENCE_S
        while "\n" not in self._text:
            if not select.select([self._handle], [], [], max(0.0, until_s - time.monotonic()))[0]:
                raise TimeoutError("no task has said anything")
            self._text += os.read(self._handle, 65536).decode()
        line, _, self._text = self._text.partition("\n")
        return line

    def close(self) -> None:
        os.close(self._handle)


def saver(news: News, exit_code: int = 0) -> str:
    """For the shell: a program that says it is ready, takes a moment to save when told to stop, and says so.

    In Python, because a shell that starts a child while it is told to stop may keep that from the child.
    """
    program = (
        "import os, signal, time\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        f"news = open({str(news.path)!r}, 'w', buffering=1)\n"
        "print('ready', file=news)\n"
        "signal.sigwait([signal.SIGTERM])\n"
        "time.sleep(0.3)\n"
        "print('saved', file=news)\n"
        f"os._exit({exit_code})\n"
    )
    return shlex.join([sys.executable, "-I", "-S", "-c", program])


def eventually(condition: Callable[[], Any]) -> None:
    """For what nobody tells of: files that others write, processes of others."""
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until_s:
            raise TimeoutError("that has not come true")
        time.sleep(0.005)


def lines(path: Path) -> list[str]:
    """Of a file that may not be there yet."""
    return path.read_text(errors="surrogateescape").splitlines() if path.exists() else []


@dataclass
class Bench:
    """An engine on a bench: it can be restarted, and all its reports are kept."""

    make: Callable[[Callable[[Report], None]], Engine]
    folder: Path
    reports: Reports = field(default_factory=Reports)
    engine: Engine = field(init=False)
    _news: list[News] = field(default_factory=list)
    _launched: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = self.make(self.reports)

    def launch(self, job_id: str, *commands: str | Sequence[str], **changes: Any) -> Launch:
        made = launch(job_id, *commands, **changes)
        self.engine.launch(made)
        self._launched.append((made.job_id, made.attempt))
        return made

    def restart(self) -> Reports:
        """Another engine over the same home, which has heard of nothing. Returns its reports."""
        self.engine.close()
        self.reports = Reports()
        self.engine = self.make(self.reports)
        return self.reports

    def news(self, name: str = "news") -> News:
        self._news.append(News(self.folder / name))
        return self._news[-1]

    def close(self) -> None:
        """Leaves nothing running."""
        final = Reports()
        self.engine.close()
        self.engine = self.make(final)
        for key in self._launched:
            self.engine.stop(*key, "the test is over", 0.0)
        for key in self._launched:
            final.ended(*key)
        self.engine.close()
        for news in self._news:
            news.close()
