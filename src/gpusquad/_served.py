"""``gpusquad.served(seconds)``: reports the latency of a request. Small and stdlib only, for request handlers."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from functools import cache
from typing import SupportsFloat

_SYMBOL = "gpusquad_served"
"""Symbol of the library that is preloaded into tasks with a share."""


def served(seconds: SupportsFloat) -> None:
    """Report the latency of a request, including its time in the queue. Takes a microsecond, does nothing in a task
    without a share, and never raises."""
    with contextlib.suppress(Exception):
        report = _find_report()
        if report is not None and float(seconds) >= 0:
            report(max(1, round(float(seconds) * 1e6)))


@cache
def _find_report() -> Callable[[int], None] | None:
    try:
        report = getattr(ctypes.CDLL(None), _SYMBOL)
    except AttributeError:
        return None
    report.argtypes, report.restype = [ctypes.c_uint64], None
    return report
