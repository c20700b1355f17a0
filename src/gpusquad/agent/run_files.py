"""Content of a run's folder: time and amount of output, and progress.

Tasks write to these folders too. So nothing is followed or waited for: no links, no pipes, bounded reads.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.agent.output_signs import OutputReading, combine_readings
from gpusquad.agent.progress import StepProgress
from gpusquad.agent.tracker import Tracker

TAIL_BYTES = 8 * 1024
"""Bytes of each task's log that are read per tick; earlier output is skipped."""
_SEGMENT = re.compile(r"(\d{1,9})\.(\d{20})\.log")
_PROGRESS_BYTES = 256
_MAX = 10**18


@dataclass(frozen=True, slots=True)
class RunReading:
    """Signs of life of a run. None: none yet."""

    last_output_us: int | None = None
    log_bytes: int = 0
    step: int | None = None
    total: int | None = None
    progress_at_us: int | None = None
    reported_us: int | None = None
    """Last progress that the program reported by itself."""
    output: OutputReading = field(default_factory=OutputReading)
    tasks: int = 0
    """Tasks with a log."""


@dataclass(slots=True)
class _Task:
    read_to: int = 0
    tracker: Tracker = field(default_factory=Tracker)


@dataclass(frozen=True, slots=True)
class _Segment:
    path: str
    start: int
    size: int
    changed_us: int

    @property
    def end(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, slots=True)
class _ReportedProgress:
    progress: StepProgress
    at_us: int


class RunFiles:
    """Reads one run at each tick."""

    def __init__(self, folder: Path) -> None:
        self._logs = folder / "logs"
        self._progress = folder / "progress"
        self._tasks: dict[int, _Task] = {}
        self._reported: dict[int, _ReportedProgress] = {}

    def look(self, now_us: int) -> RunReading:
        """The current state of the run."""
        segments = _newest_segments(self._logs)
        for task, segment in segments.items():
            self._read_log(task, segment, now_us)
        self._read_reported(now_us)
        written = [segment for segment in segments.values() if segment.end > 0]
        progress = self._shown()
        return RunReading(
            last_output_us=max((segment.changed_us for segment in written), default=None),
            log_bytes=sum(segment.end for segment in written),
            step=progress.step if progress is not None else None,
            total=progress.total if progress is not None else None,
            progress_at_us=max(self._moved_us(), default=None),
            reported_us=max((reported.at_us for reported in self._reported.values()), default=None),
            output=combine_readings([task.tracker.signs.reading() for task in self._tasks.values()]),
            tasks=len(self._tasks),
        )

    def _shown(self) -> StepProgress | None:
        """What tasks report explicitly takes precedence over their output. A gang is as far as its slowest task."""
        if self._reported:
            return min((report.progress for report in self._reported.values()), key=_how_far)
        # Tasks other than the first often print counters of their own; the first task's is the run's.
        followed = (self._tasks[task].tracker.progress for task in sorted(self._tasks))
        return next((progress for progress in followed if progress is not None), None)

    def _moved_us(self) -> list[int]:
        followed = [task.tracker.moved_us for task in self._tasks.values()]
        return [at_us for at_us in followed if at_us is not None] + [
            reported.at_us for reported in self._reported.values()
        ]

    def _read_log(self, number: int, segment: _Segment, now_us: int) -> None:
        task = self._tasks.setdefault(number, _Task())
        if segment.end <= task.read_to:
            task.tracker.settle(min(segment.changed_us, now_us))
            return
        start = max(task.read_to, segment.start, segment.end - TAIL_BYTES)
        data = read_regular(segment.path, start - segment.start, TAIL_BYTES)
        if data:
            task.tracker.feed(data, min(segment.changed_us, now_us), after_gap=start > task.read_to)
            task.read_to = start + len(data)

    def _read_reported(self, now_us: int) -> None:
        for task, path in _numbered(self._progress):
            reported = _parse_reported(read_regular(path, 0, _PROGRESS_BYTES) or b"", now_us)
            before = self._reported.get(task)
            # Repeating the same value is no progress.
            if reported is not None and (before is None or before.progress != reported.progress):
                self._reported[task] = reported


def _how_far(progress: StepProgress) -> tuple[bool, float]:
    """Reports with a total first: their ratios can be compared."""
    return (progress.total is None, progress.step / (progress.total or 1))


def _parse_reported(data: bytes, now_us: int) -> _ReportedProgress | None:
    """``step total time_us``; ``-`` for an unknown total."""
    fields = data.split()
    try:
        step, at_us = int(fields[0]), int(fields[2])
        total = None if fields[1] == b"-" else int(fields[1])
    except (IndexError, ValueError):
        return None
    if not 0 <= step <= _MAX or (total is not None and not 0 < total <= _MAX) or at_us < 0:
        return None
    return _ReportedProgress(StepProgress(step if total is None else min(step, total), total), min(at_us, now_us))


def _newest_segments(folder: Path) -> dict[int, _Segment]:
    newest: dict[int, tuple[int, str]] = {}
    for entry in _entries(folder):
        match = _SEGMENT.fullmatch(entry)
        if match is not None:
            task, start = int(match[1]), int(match[2])
            newest[task] = max(newest.get(task, (-1, "")), (start, entry))
    found: dict[int, _Segment] = {}
    for task, (start, name) in newest.items():
        path = str(folder / name)
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode):
            found[task] = _Segment(path, start, status.st_size, status.st_mtime_ns // 1000)
    return found


def _numbered(folder: Path) -> list[tuple[int, str]]:
    names = (name for name in _entries(folder) if name.isascii() and name.isdigit() and len(name) < 10)
    return [(int(name), str(folder / name)) for name in names]


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def read_regular(path: str, offset: int, limit: int) -> bytes | None:
    """None: missing, a link, or not a regular file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        return os.pread(file, limit, offset)
    except OSError:
        return None
    finally:
        os.close(file)
