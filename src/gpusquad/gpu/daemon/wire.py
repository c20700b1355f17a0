"""What callers of a card daemon need: file names, exit code and ``ask``. It knows no policies."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

SOCKET, LOCK, LOG = "control.sock", "lock", "log"
TAKEN = 3
"""Exit code: another daemon uses the folder."""
MAX_HOLD_US = 600_000_000
_MAX_ADDRESS = 100
"""Bytes; the system allows 107."""


@contextlib.contextmanager
def address(path: Path) -> Iterator[str]:
    """Address to bind or connect to. A path that is too long for a socket is reached through its open folder."""
    if len(os.fsencode(path)) <= _MAX_ADDRESS:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def ask(path: Path, question: Mapping[str, object], within_s: float = 5.0) -> dict:
    """Send one request to a daemon and return its answer. OSError: it does not run, or does not answer in time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, address(path) as name:
        client.settimeout(within_s)
        client.connect(name)
        client.sendall(json.dumps(question).encode() + b"\n")
        with client.makefile("rb") as answers:
            line = answers.readline()
    if not line.endswith(b"\n"):
        raise ConnectionResetError("it ended before it answered")
    return json.loads(line)
