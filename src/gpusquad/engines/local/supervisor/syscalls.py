"""Two system calls that the standard library lacks."""

from __future__ import annotations

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_prctl = ctypes.CDLL(None, use_errno=True).prctl


def adopt_orphans() -> None:
    """Descendants whose parent dies become our children instead of init's, so that none is lost."""
    _call(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(number: int) -> None:
    """Receive this signal when the thread that forked us ends. A change of user id cancels it."""
    _call(_PR_SET_PDEATHSIG, number)


def _call(option: int, value: int) -> None:
    if _prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
