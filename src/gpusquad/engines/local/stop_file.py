"""The request to stop an attempt. Its space is allocated early, so that a full disk cannot keep a gang running."""

from __future__ import annotations

import json
import os

from gpusquad.engines.local import atomic_file
from gpusquad.engines.local.run_folder import RunFolder

_SIZE_BYTES = 4096  # one page: written completely or not at all, even by a process that is killed meanwhile
_CAUSE_CHARACTERS = 500


class StopRequest:
    """Why, and how long tasks may take to end by themselves."""

    __slots__ = ("cause", "grace_s")

    def __init__(self, cause: str, grace_s: float) -> None:
        self.cause = cause
        self.grace_s = grace_s


def reserve(folder: RunFolder) -> None:
    """Allocate space for a later request; an existing one stays."""
    atomic_file.place(folder.stop, b" " * _SIZE_BYTES)


def ask(folder: RunFolder, stop: StopRequest) -> None:
    """Write the request. Signal the supervisor after this, not before."""
    body = json.dumps({"cause": stop.cause[:_CAUSE_CHARACTERS], "grace_s": stop.grace_s}, ensure_ascii=False)
    data = body.encode("utf-8", "replace").ljust(_SIZE_BYTES - 1) + b"\n"
    if atomic_file.place(folder.stop, data):
        return
    handle = os.open(folder.stop, os.O_WRONLY | os.O_CLOEXEC)
    try:
        atomic_file.write_all(handle, data, 0)
    finally:
        os.close(handle)


def read(folder: RunFolder) -> StopRequest | None:
    """None: no request, or one that is being written; then a signal follows."""
    data = (atomic_file.read(folder.stop) or b"").strip(b" \n\0")
    if not data:
        return None
    try:
        body = json.loads(data)
        return StopRequest(str(body["cause"]), max(0.0, float(body["grace_s"])))
    except (ValueError, KeyError, TypeError):
        return None
