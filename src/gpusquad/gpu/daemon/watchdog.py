"""A daemon that hangs ends: it answers nobody, and its lock would keep out the next one for ever."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

STUCK_S = 20.0
"""Less than whoever starts a daemon waits for it, so that the next one is there in time."""


@contextlib.contextmanager
def watched(log: Path | None = None, within_s: float = STUCK_S) -> Iterator[Callable[[], object]]:
    """What it yields has to be called again within that time, else the process is killed by SIGALRM, and the log (or
    stderr) says where it was. For the main thread only."""
    with contextlib.ExitStack() as after:
        words = after.enter_context(log.open("a")) if log is not None else sys.__stderr__ or 2
        faulthandler.register(signal.SIGALRM, file=words, all_threads=False, chain=True)
        after.callback(faulthandler.unregister, signal.SIGALRM)
        after.callback(signal.setitimer, signal.ITIMER_REAL, 0)
        yield lambda: signal.setitimer(signal.ITIMER_REAL, within_s)
