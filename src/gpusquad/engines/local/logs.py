"""Reads the logs of an attempt, while it runs and after."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from gpusquad.engines.local.log_segments import Segment, segments
from gpusquad.engines.local.names import checked_number
from gpusquad.engines.local.run_folder import RunFolder

_STEP_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class AttemptLogChunk:
    """A piece of a task's output."""

    offset: int
    """Offset of its first byte: larger than requested if bytes were not kept."""
    data: bytes
    next_offset: int
    """Offset to continue from."""


class AttemptLogReader:
    """Offsets count every byte that a task wrote, kept or not, so they stay valid when old segments are deleted."""

    def __init__(self, run_folder: Path | str) -> None:
        self._folder = RunFolder(str(run_folder)).logs

    def tasks(self) -> list[int]:
        """Ranks of the tasks that wrote something."""
        return sorted({segment.task for segment in segments(self._folder)})

    def size(self, task: int) -> tuple[int, int]:
        """Offset of the first byte that is kept, and of the end."""
        pieces = self._pieces(task)
        return (pieces[0].start, pieces[-1].end) if pieces else (0, 0)

    def read(self, task: int, offset: int, limit: int) -> AttemptLogChunk:
        """At most ``limit`` bytes from there, or from the next byte that is kept."""
        for piece in self._pieces(task):
            start = max(offset, piece.start)
            data = piece.read(start, limit) if start < piece.end else b""
            if data:  # empty: deleted meanwhile, the next one is the oldest now
                return AttemptLogChunk(start, data, start + len(data))
        return AttemptLogChunk(offset, b"", offset)

    def tail(self, task: int, lines: int) -> int:
        """Offset of the last ``lines`` lines."""
        _, end = self.size(task)
        if lines <= 0:
            return end
        pieces = self._pieces(task)
        wanted = lines + (1 if self._ends_line(pieces) else 0)
        for piece in reversed(pieces):
            stop = piece.end
            while stop > piece.start:
                start = max(piece.start, stop - _STEP_BYTES)
                data = piece.read(start, stop - start)
                breaks = data.count(b"\n")
                if breaks >= wanted:
                    return start + _after_break(data, wanted)
                wanted, stop = wanted - breaks, start
        return pieces[0].start if pieces else 0

    def _ends_line(self, pieces: list[_Piece]) -> bool:
        return bool(pieces) and pieces[-1].read(pieces[-1].end - 1, 1) == b"\n"

    def _pieces(self, task: int) -> list[_Piece]:
        checked_number("task", task)
        found = (_piece(segment) for segment in segments(self._folder) if segment.task == task)
        return [piece for piece in found if piece is not None and piece.end > piece.start]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A segment with its length when it was listed."""

    path: str
    start: int
    end: int

    def read(self, start: int, size: int) -> bytes:
        """Empty if it was deleted meanwhile."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return b""
        try:
            return os.pread(handle, max(0, min(size, self.end - start)), start - self.start)
        finally:
            os.close(handle)


def _piece(segment: Segment) -> _Piece | None:
    try:
        return _Piece(segment.path, segment.start, segment.start + os.stat(segment.path).st_size)
    except FileNotFoundError:
        return None


def _after_break(data: bytes, number_from_end: int) -> int:
    """Offset after the n-th line break from the end."""
    place = len(data)
    for _ in range(number_from_end):
        place = data.rindex(b"\n", 0, place)
    return place + 1
