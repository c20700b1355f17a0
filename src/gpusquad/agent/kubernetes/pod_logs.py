"""Signs of life in the logs of containers, as the kubelet keeps them on the node.

``FOLDER/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log``, each line with the time, the stream and whether it is whole (``F``)
or goes on in the next (``P``) in front: the form that the container runtime interface prescribes.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.run_files import TAIL_BYTES, RunReading, read_regular
from gpusquad.agent.tracker import Tracker

_US_PER_NS = 1000
_HEAD = 3
"""Words in front of what the program wrote."""


@dataclass(slots=True)
class _Followed:
    """The log of one container."""

    file: int = -1
    """Its inode: another one after a rotation or a restart."""
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
            self.tracker.feed(b"".join(map(_said, lines.splitlines(keepends=True))), at_us)


class PodLogWatcher:
    """Looks at the logs of pods again and again. Nothing of what they say is kept but counts and times."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._followed: dict[tuple[str, str], _Followed] = {}

    def look(self, pods: Sequence[Pod], now_us: int) -> dict[str, RunReading]:
        """By pod's uid. A pod whose logs are not there is left out: nobody knows what it wrote."""
        found: dict[str, RunReading] = {}
        seen: dict[tuple[str, str], _Followed] = {}
        for pod in pods:
            for container in pod.containers:
                newest = _newest_log(self._folder / f"{pod.namespace}_{pod.name}_{pod.uid}" / container.name)
                if newest is None:
                    continue
                key = (pod.uid, container.name)
                followed = seen[key] = self._followed.get(key) or _Followed()
                followed.look(*newest, now_us)
                found[pod.uid] = together([*([found[pod.uid]] if pod.uid in found else []), _reading(followed)])
        self._followed = seen
        return found


def together(readings: Sequence[RunReading]) -> RunReading:
    """Of several, the first that tells how far it is; the newest signs of life of all."""
    shown = next((reading for reading in readings if reading.step is not None), RunReading())
    return RunReading(
        last_output_us=max((r.last_output_us for r in readings if r.last_output_us is not None), default=None),
        log_bytes=sum(reading.log_bytes for reading in readings),
        step=shown.step,
        total=shown.total,
        progress_at_us=max((r.progress_at_us for r in readings if r.progress_at_us is not None), default=None),
    )


def _reading(followed: _Followed) -> RunReading:
    progress = followed.tracker.progress
    return RunReading(
        followed.changed_us, followed.size, None if progress is None else progress.step,
        None if progress is None else progress.total, followed.tracker.moved_us,
    )  # fmt: skip


def _newest_log(folder: Path) -> tuple[str, os.stat_result] | None:
    """Of the container's last start. Those that were rotated away have a date behind their name."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".log") and name[:-4].isdigit()]
        path = str(folder / max(names, key=lambda name: int(name[:-4])))
        status = os.lstat(path)
    except (OSError, ValueError):
        return None
    return (path, status) if stat.S_ISREG(status.st_mode) else None


def _said(line: bytes) -> bytes:
    """What the program wrote. What has no such words in front is taken as it is."""
    words = line.split(b" ", _HEAD)
    if len(words) <= _HEAD or words[1] not in (b"stdout", b"stderr"):
        return line
    return words[_HEAD] if words[2].startswith(b"F") else words[_HEAD].rstrip(b"\n")
