"""Keeps a measurement pod up: ``python -m gpusquad.measure.pod_holder``, its first process.

It ends on a signal, and by itself when no measurement has run for a while. The measuring process may have been killed
or cut off, and an unused card would stay allocated.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

IDLE_S = 120.0
_POLL_INTERVAL_S = 1.0
_MODULES = b"\0gpusquad.measure."


def hold(idle_s: float = IDLE_S, processes: Path = Path("/proc"), every_s: float = _POLL_INTERVAL_S) -> None:
    """Return when no worker and no monitor has run for this long."""
    last_s = time.monotonic()
    while time.monotonic() - last_s < idle_s:
        time.sleep(every_s)
        _reap()
        if is_measuring(processes):
            last_s = time.monotonic()


def is_measuring(processes: Path) -> bool:
    """Whether another gpusquad module runs in this container."""
    own = str(os.getpid())
    return any(_MODULES in _words(folder) for folder in processes.glob("[0-9]*") if folder.name != own)


def _words(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def _reap() -> None:
    """Reap orphans: the first process of a container inherits them."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:  # no child process
        return


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpusquad.measure.pod_holder", description=__doc__)
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a first process ignores signals without a handler
    hold(chosen.idle)


if __name__ == "__main__":
    main()
