"""The private home folder with logs, secrets and the administrator's token."""

from __future__ import annotations

import os
from pathlib import Path


def make_home(home: Path) -> None:
    """Create the folder, readable only by its owner."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = home.stat()
    if status.st_uid == os.getuid():
        # Keep execute permission of others, so that tasks of other users can reach their folders. They cannot list it.
        home.chmod(0o700 | status.st_mode & 0o011)


def write_private(path: Path, text: str) -> None:
    """Write atomically, never readable by other users."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    beside.replace(path)
