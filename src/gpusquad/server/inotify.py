"""Tells when files in a folder change, so that a log can be followed without asking again and again (Linux only)."""

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
    """Watches folders; to be used on the event loop. Without inotify nothing is told, and the caller asks by time."""

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
        """Whether changes in it are told from now on."""
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
        # What changed does not matter, only that something did; all of it is read so that the next change tells again.
        try:
            while len(os.read(self._handle, _READ_BYTES)) == _READ_BYTES:
                pass
        except BlockingIOError:
            pass
        self._on_change()
