"""Copies a task's pipe to its log files. The task never blocks: what cannot be stored is dropped and counted."""

from __future__ import annotations

import contextlib
import errno
import os
import time

from gpusquad.engines.local.log_segments import Segment

_READ_BYTES = 256 * 1024
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_PAUSE_S = 1.0
"""Interval between checks of a full disk."""
_MAX_SEGMENTS = 64
_MAX_DRAINED = 64


class LogWriter:
    """The log of one task: its newest ``most_bytes``, in segments."""

    def __init__(self, folder: str, task: int, pipe: int, most_bytes: int, segment_bytes: int) -> None:
        self.pipe = pipe
        self.written_bytes = 0
        """Written by the task, stored or not."""
        self.kept_bytes = 0
        self._folder = folder
        self._task = task
        self._most_bytes = most_bytes
        self._segment_bytes = segment_bytes
        self._done: list[tuple[Segment, int]] = []
        self._current: Segment | None = None
        self._current_bytes = 0
        self._handle = -1
        self._closed_until_s = 0.0
        os.set_blocking(pipe, False)

    def read_once(self) -> bool:
        """Read what the pipe holds now. False: nothing more will come."""
        try:
            data = os.read(self.pipe, _READ_BYTES)
        except BlockingIOError:
            return True
        if data:
            self._keep(memoryview(data))
        return bool(data)

    def drain(self) -> None:
        """Read the rest. The writers have ended, so it is at most the pipe's content; a limit guards against the
        opposite.
        """
        for _ in range(_MAX_DRAINED):
            before_bytes = self.written_bytes
            if not self.read_once() or self.written_bytes == before_bytes:
                return

    def close(self) -> None:
        self._finish_segment()
        os.close(self.pipe)

    def _keep(self, data: memoryview) -> None:
        while data:
            if self._current_bytes >= self._segment_bytes:
                self._finish_segment()
            part = data[: self._segment_bytes - self._current_bytes]
            done_bytes = self._store(part) if time.monotonic() >= self._closed_until_s else 0
            if done_bytes == 0:
                self._finish_segment()  # the next stored byte has a larger offset
                self.written_bytes += len(data)
                return
            data = data[done_bytes:]

    def _store(self, part: memoryview) -> int:
        """Number of bytes stored. 0: nothing can be written, although the oldest segments were deleted for it."""
        while True:
            try:
                return self._append(part)
            except OSError as error:
                if error.errno not in _FULL or not self._drop_oldest():
                    self._closed_until_s = time.monotonic() + _FULL_PAUSE_S
                    return 0

    def _append(self, part: memoryview) -> int:
        if self._current is None:
            self._open_segment()
        done_bytes = os.write(self._handle, part)
        self._current_bytes += done_bytes
        self.written_bytes += done_bytes
        self.kept_bytes += done_bytes
        return done_bytes

    def _open_segment(self) -> None:
        while self._done and (
            self.kept_bytes + self._segment_bytes > self._most_bytes or len(self._done) >= _MAX_SEGMENTS
        ):
            self._drop_oldest()
        segment = Segment(self._folder, self._task, self.written_bytes)
        self._handle = os.open(segment.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._current, self._current_bytes = segment, 0

    def _finish_segment(self) -> None:
        if self._current is None:
            return
        os.close(self._handle)
        if self._current_bytes:
            self._done.append((self._current, self._current_bytes))
        else:
            _unlink(self._current)
        self._current, self._current_bytes = None, 0

    def _drop_oldest(self) -> bool:
        if not self._done:
            return False
        segment, size_bytes = self._done.pop(0)
        _unlink(segment)
        self.kept_bytes -= size_bytes
        return True


def _unlink(segment: Segment) -> None:
    with contextlib.suppress(OSError):
        os.unlink(segment.path)
