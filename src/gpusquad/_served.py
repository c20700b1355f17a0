"""``gpusquad.served(seconds)``: a service says how long a request took. Tiny and stdlib only, for request handlers."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from functools import cache
from typing import SupportsFloat

_SYMBOL = "gpusquad_served"
"""Of the library that a task with a part of a card is started with."""


def served(seconds: SupportsFloat) -> None:
    """Say that a request was answered so long after it came, queue included. Costs a microsecond, does nothing where no
    part of a card was asked for, never raises."""
    with contextlib.suppress(Exception):
        tell = _teller()
        if tell is not None and float(seconds) >= 0:
            tell(max(1, round(float(seconds) * 1e6)))


@cache
def _teller() -> Callable[[int], None] | None:
    try:
        tell = getattr(ctypes.CDLL(None), _SYMBOL)
    except AttributeError:
        return None
    tell.argtypes, tell.restype = [ctypes.c_uint64], None
    return tell
