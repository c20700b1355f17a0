"""Progress and output times of pods, read from the kubelet's log files on the node.

``FOLDER/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log``. Each line starts with the time, the stream, and whether it is
complete (``F``) or continued in the next (``P``), as the container runtime interface prescribes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.output_signs import combine_readings
from gpusquad.agent.run_files import TAIL_BYTES, RunReading, read_regular
from gpusquad.agent.tracker import Tracker

_US_PER_NS = 1000
_HEAD = 3
"""Fields before the program's output."""


@dataclass(slots=True)
class _FollowedLog:
    """The log of one container."""

    file: int = -1
    """Inode: it changes after a rotation or a restart."""
    read_to: int = 0
    tracker: Tracker = field(default_factory=Tracker)
    changed_us: int | None = None
    size: int = 0

    def look(self, path: str, status: os.stat_result, now_us: int) -> None:
        at_us = min(status.st_mtime_ns // _US_PER_NS, now_us)
        if status.st_size:
            self.changed_us = at_us
        if status.st_ino != self.file or status.st_size < self.read_to:
            self.file, self.read_to = status.st_ino, 0
        self.size = status.st_size
        if status.st_size <= self.read_to:
            self.tracker.settle(at_us)
            return
        start = max(self.read_to, status.st_size - TAIL_BYTES)
        data = read_regular(path, start, TAIL_BYTES) or b""
        whole = data[: data.rfind(b"\n") + 1]
        if not whole and len(data) == TAIL_BYTES:
            whole = data  # no line of a container is that long
        self._feed(whole, at_us, after_gap=start > self.read_to)
        self.read_to = start + len(whole)

    def _feed(self, lines: bytes, at_us: int, *, after_gap: bool) -> None:
        if after_gap:
            lines = lines.partition(b"\n")[2]
            self.tracker.feed(b"\n", at_us, after_gap=True)
        if lines:
            self.tracker.feed(b"".join(map(_output, lines.splitlines(keepends=True))), at_us)


class PodLogWatcher:
    """Reads the logs of pods repeatedly. Only counts and times are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs_by_container: dict[tuple[str, str], _FollowedLog] = {}

    def look(self, pods: Sequence[Pod], now_us: int) -> dict[str, RunReading]:
        """By pod UID. Pods without log files are left out: their output is unknown."""
        found: dict[str, RunReading] = {}
        seen: dict[tuple[str, str], _FollowedLog] = {}
        for pod in pods:
            for container in pod.containers:
                newest = _newest_log(self._folder / f"{pod.namespace}_{pod.name}_{pod.uid}" / container.name)
                if newest is None:
                    continue
                key = (pod.uid, container.name)
                followed = seen[key] = self._logs_by_container.get(key) or _FollowedLog()
                followed.look(*newest, now_us)
                found[pod.uid] = together([*([found[pod.uid]] if pod.uid in found else []), _reading(followed)])
        self._logs_by_container = seen
        return found


def together(readings: Sequence[RunReading]) -> RunReading:
    """The progress of the first reading that has one, and the newest times of all."""
    shown = next((reading for reading in readings if reading.step is not None), RunReading())
    return RunReading(
        last_output_us=max((r.last_output_us for r in readings if r.last_output_us is not None), default=None),
        log_bytes=sum(reading.log_bytes for reading in readings),
        step=shown.step,
        total=shown.total,
        progress_at_us=max((r.progress_at_us for r in readings if r.progress_at_us is not None), default=None),
        output=combine_readings([reading.output for reading in readings]),
        tasks=len(readings),
    )


def _reading(followed: _FollowedLog) -> RunReading:
    progress = followed.tracker.progress
    return RunReading(
        followed.changed_us, followed.size, None if progress is None else progress.step,
        None if progress is None else progress.total, followed.tracker.moved_us,
        output=followed.tracker.signs.reading(), tasks=1,
    )  # fmt: skip


def _newest_log(folder: Path) -> tuple[str, os.stat_result] | None:
    """Of the container's last start. Rotated files have a date appended to their name."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".log") and name[:-4].isdigit()]
        path = str(folder / max(names, key=lambda name: int(name[:-4])))
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (path, status) if stat.S_ISREG(status.st_mode) else None


def _output(line: bytes) -> bytes:
    """The program's output. A line without the prefix is returned unchanged."""
    words = line.split(b" ", _HEAD)
    if len(words) <= _HEAD or words[1] not in (b"stdout", b"stderr"):
        return line
    return words[_HEAD] if words[2].startswith(b"F") else words[_HEAD].rstrip(b"\n")
