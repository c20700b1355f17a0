"""Notifies of files created and deleted in a folder (inotify; Linux only)."""

from __future__ import annotations

import ctypes
import os
import select
from pathlib import Path

_CREATED, _DELETED, _MOVED_TO = 0x100, 0x200, 0x080
_READ_BYTES = 64 * 1024


class FolderEvents:
    """The folder must exist."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        wanted = _CREATED | _DELETED | _MOVED_TO
        if self._handle < 0 or libc.inotify_add_watch(self._handle, os.fsencode(folder), wanted) < 0:
            number = ctypes.get_errno()
            self.close()
            raise OSError(number, os.strerror(number), str(folder))

    def wait(self, timeout_s: float) -> bool:
        """Whether something changed. The caller checks what."""
        ready, _, _ = select.select([self._handle], [], [], timeout_s)
        if not ready:
            return False
        os.read(self._handle, _READ_BYTES)
        return True

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
