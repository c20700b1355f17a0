"""A private home: logs, secrets and the administrator's token lie here."""

from __future__ import annotations

import os
from pathlib import Path


def make_home(home: Path) -> None:
    """For its owner alone."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = home.stat()
    if status.st_uid == os.getuid():
        # Others may pass through where tasks of other users have to reach their folders; they never list or read.
        home.chmod(0o700 | status.st_mode & 0o011)


def write_private(path: Path, text: str) -> None:
    """Never readable by others, not even for a moment; whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    beside.replace(path)
