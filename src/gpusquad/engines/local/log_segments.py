"""Log files of a task: TASK.START.log, where START is the offset of the first byte in everything the task wrote."""

from __future__ import annotations

import os

_START_DIGITS = 20


class Segment:
    """One file. Bytes may be missing between two files: they were written while the disk was full."""

    __slots__ = ("path", "start", "task")

    def __init__(self, folder: str, task: int, start: int) -> None:
        self.task = task
        self.start = start
        self.path = os.path.join(folder, f"{task}.{start:0{_START_DIGITS}d}.log")


def segments(folder: str) -> list[Segment]:
    """By task, then by offset. Other files in the folder are ignored."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = [segment for segment in (_parse(folder, name) for name in names) if segment is not None]
    return sorted(found, key=lambda segment: (segment.task, segment.start))


def _parse(folder: str, name: str) -> Segment | None:
    task, _, rest = name.partition(".")
    start, _, end = rest.partition(".")
    if end != "log" or len(start) != _START_DIGITS or not (task + start).isdecimal() or not (task + start).isascii():
        return None
    return Segment(folder, int(task), int(start))
