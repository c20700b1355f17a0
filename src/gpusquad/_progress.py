"""``gpusquad.progress(step, total)``: a running task says how far it is. Tiny and stdlib only, for training loops."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import SupportsInt

VARIABLE = "GPUSQUAD_PROGRESS"
"""Names the file to write; set for every task."""
UNKNOWN = "-"
"""Stands for a total that is not known."""

_LEAST_GAP_S = 0.2
_written_s = float("-inf")
_waiting: tuple[int, int, int | None] | None = None
"""What the rate limit held back: process, step, total. It is written at the exit, so the last word is never lost."""
_at_exit = False


def progress(step: SupportsInt, total: SupportsInt | None = None) -> None:
    """Say that ``step`` steps (of ``total``) are done. Costs little, does nothing outside gpusquad, never raises."""
    path = os.environ.get(VARIABLE)
    if path:
        # A training run must not end because somebody counts its steps, whatever is passed and whatever the disk does.
        with contextlib.suppress(Exception):
            _report(path, int(step), None if total is None else int(total))


def _report(path: str, step: int, total: int | None) -> None:
    global _waiting, _written_s
    if step < 0 or (total is not None and total <= 0):
        return
    now_s = time.monotonic()
    last = total is not None and step >= total
    if now_s - _written_s < _LEAST_GAP_S and not last:
        _waiting = (os.getpid(), step, total)
        _write_at_exit()
        return
    _written_s, _waiting = now_s, None
    _write(path, step, total)


def _write(path: str, step: int, total: int | None) -> None:
    """Beside the file and renamed over it, so that a reader never sees half of it."""
    beside = f"{path}.{os.getpid()}.{threading.get_ident()}"
    shown = UNKNOWN if total is None else str(total)
    try:
        with open(beside, "w", encoding="ascii") as file:
            file.write(f"{step} {shown} {time.time_ns() // 1000}\n")
        os.replace(beside, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside)


def _write_at_exit() -> None:
    global _at_exit
    if not _at_exit:
        _at_exit = True
        atexit.register(_write_what_waits)


def _write_what_waits() -> None:
    path = os.environ.get(VARIABLE)
    # A forked worker inherits what its parent held back; only the process that said it may write it.
    if path and _waiting is not None and _waiting[0] == os.getpid():
        with contextlib.suppress(Exception):
            _write(path, *_waiting[1:])
