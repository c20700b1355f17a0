"""``gpusquad.progress(step, total)``: reports the progress of a task. Small and stdlib only, for training loops."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import SupportsInt

VARIABLE = "GPUSQUAD_PROGRESS"
"""Environment variable with the file to write, set for every task."""
UNKNOWN = "-"
"""Written for an unknown total."""

_MIN_INTERVAL_S = 0.2
_written_s = float("-inf")
_pending: tuple[int, int, int | None] | None = None
"""Process, step and total held back by the rate limit. Written at exit, so that the last report is never lost."""
_at_exit = False


def progress(step: SupportsInt, total: SupportsInt | None = None) -> None:
    """Report that ``step`` steps (of ``total``) are done. Cheap, does nothing outside gpusquad, and never raises."""
    path = os.environ.get(VARIABLE)
    if path:
        # Reporting must never end a training run, whatever is passed and whatever the disk does.
        with contextlib.suppress(Exception):
            _report(path, int(step), None if total is None else int(total))


def _report(path: str, step: int, total: int | None) -> None:
    global _pending, _written_s
    if step < 0 or (total is not None and total <= 0):
        return
    now_s = time.monotonic()
    last = total is not None and step >= total
    if now_s - _written_s < _MIN_INTERVAL_S and not last:
        _pending = (os.getpid(), step, total)
        _write_at_exit()
        return
    _written_s, _pending = now_s, None
    _write(path, step, total)


def _write(path: str, step: int, total: int | None) -> None:
    """Write to a temporary file and rename it, so that readers never see a partial line."""
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
        atexit.register(_write_pending)


def _write_pending() -> None:
    path = os.environ.get(VARIABLE)
    # A forked worker inherits the pending report of its parent, which only the parent may write.
    if path and _pending is not None and _pending[0] == os.getpid():
        with contextlib.suppress(Exception):
            _write(path, *_pending[1:])
