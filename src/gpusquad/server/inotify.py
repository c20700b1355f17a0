"""Reports changes of files in a folder, so that a log can be followed without polling (Linux only)."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_MODIFY, _CREATE, _MOVED_TO = 0x002, 0x100, 0x080
_NONBLOCK, _CLOEXEC = os.O_NONBLOCK, os.O_CLOEXEC
_READ_BYTES = 64 * 1024


class FolderWatch:
    """Watches folders on the event loop. Without inotify nothing is reported, and the caller polls."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._folders: set[Path] = set()
        self._loop = asyncio.get_running_loop()
        try:
            self._handle = self._libc.inotify_init1(_NONBLOCK | _CLOEXEC)
        except AttributeError:
            self._handle = -1
        if self._handle >= 0:
            self._loop.add_reader(self._handle, self._changed)

    def add(self, folder: Path) -> bool:
        """Whether its changes are reported from now on."""
        if folder in self._folders:
            return True
        if self._handle < 0:
            return False
        added = self._libc.inotify_add_watch(self._handle, os.fsencode(folder), _MODIFY | _CREATE | _MOVED_TO)
        if added >= 0:
            self._folders.add(folder)
        return added >= 0

    def close(self) -> None:
        if self._handle >= 0:
            self._loop.remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    def _changed(self) -> None:
        # Only the fact of a change matters. All events are read, so that the next change is reported again.
        try:
            while len(os.read(self._handle, _READ_BYTES)) == _READ_BYTES:
                pass
        except BlockingIOError:
            pass
        self._on_change()
