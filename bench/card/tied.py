"""Runs a program that the kernel ends with its starter. Otherwise a daemon would outlive a bench that was killed.

``preexec_fn`` is not used: it runs the fork handlers of all libraries, and gRPC's sometimes abort the child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tied(argv: Sequence[str]) -> list[str]:
    """The words that start this program instead."""
    return [sys.executable, "-P", __file__, str(os.getpid()), *argv]


def main(starter: str, program: str, *words: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(starter):
        sys.exit("who started it has ended already")
    os.execv(program, [program, *words])


if __name__ == "__main__":
    main(*sys.argv[1:])
