"""Ends a daemon that hangs: it does not answer, and its lock would block the next one indefinitely."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

STUCK_S = 20.0
"""Less than the time limit for starting a daemon, so that the next one starts in time."""


@contextlib.contextmanager
def watched(log: Path | None = None, within_s: float = STUCK_S) -> Iterator[Callable[[], object]]:
    """Yields a function that has to be called again within that time. Otherwise SIGALRM kills the process, and the log
    (or stderr) shows its stack. For the main thread only."""
    with contextlib.ExitStack() as after:
        words = after.enter_context(log.open("a")) if log is not None else sys.__stderr__ or 2
        faulthandler.register(signal.SIGALRM, file=words, all_threads=False, chain=True)
        after.callback(faulthandler.unregister, signal.SIGALRM)
        after.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        yield lambda: signal.setitimer(signal.ITIMER_REAL, within_s)
