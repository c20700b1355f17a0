"""Starts supervisors."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from gpusquad.engines.local.run_folder import RunFolder

_PROGRAM = str(Path(__file__).with_name("supervisor") / "__main__.py")
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "LANG", "TZ")


@dataclass(frozen=True, slots=True)
class SpawnedSupervisor:
    """A supervisor that has just started: our child, which we must reap."""

    pidfd: int
    feed: int
    """Takes its order; non-blocking."""
    ready: int
    """Reports when the tasks run; non-blocking."""


def spawn(folder: RunFolder) -> SpawnedSupervisor:
    """Start it in its own session, with all signals blocked until it can handle them: no stop is lost or kills it."""
    with contextlib.ExitStack() as on_error:
        order_end, feed = _pipe(on_error)
        ready, ready_end = _pipe(on_error)
        errors = os.open(folder.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        on_error.callback(os.close, errors)
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-X", "utf8", _PROGRAM, folder.path],
            {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, order_end, 0),
                (os.POSIX_SPAWN_DUP2, ready_end, 1),
                (os.POSIX_SPAWN_DUP2, errors, 2),
            ],
            setsid=True,
            setsigmask=signal.valid_signals(),
        )
        pidfd = _hold(pid)
        on_error.pop_all()
    for theirs in (order_end, ready_end, errors):
        os.close(theirs)
    os.set_blocking(feed, False)
    os.set_blocking(ready, False)
    return SpawnedSupervisor(pidfd, feed, ready)


def reap(pidfd: int) -> int | None:
    """Reap a supervisor that has ended. Returns its exit code (negative: a signal), or None if it was not our child."""
    try:
        ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    except ChildProcessError:
        return None
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def last_words(folder: RunFolder) -> str:
    """The last line of the supervisor's error output."""
    try:
        with open(folder.supervisor_log, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
            lines = file.read().decode("utf-8", "replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")[:500]


def _pipe(on_error: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        on_error.callback(os.close, end)
    return ends


def _hold(pid: int) -> int:
    """Only we can reap it, so its process id is still valid. Without a handle we could not watch it."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
