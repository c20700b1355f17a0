"""Keeps a pod up while somebody measures in it: ``python -m gpusquad.measure.pod_holder``, its first process.

It ends when told to, and by itself once nobody has measured for a while: whoever did may have been killed or cut off,
and a card that nobody uses would stay taken.
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
_EVERY_S = 1.0
_OURS = b"\0gpusquad.gpu.measure."


def hold(idle_s: float = IDLE_S, processes: Path = Path("/proc"), every_s: float = _EVERY_S) -> None:
    """Comes back once no worker and no steward was there for so long."""
    last_s = time.monotonic()
    while time.monotonic() - last_s < idle_s:
        time.sleep(every_s)
        _reap()
        if is_measuring(processes):
            last_s = time.monotonic()


def is_measuring(processes: Path) -> bool:
    """Whether a module of ours runs in this container, this one apart."""
    own = str(os.getpid())
    return any(_OURS in _words(folder) for folder in processes.glob("[0-9]*") if folder.name != own)


def _words(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""


def _reap() -> None:
    """The first process of a container inherits those whose parent has ended, and has to note their end."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:  # there is none
        return


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpusquad.measure.pod_holder", description=__doc__)
    parser.add_argument("--idle", type=float, default=IDLE_S, metavar="SECONDS")
    chosen = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # a first process ignores what it does not handle
    hold(chosen.idle)


if __name__ == "__main__":
    main()
