"""Progress bars that cost next to nothing: they are moved and drawn twice a second, on a machine that is measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn
from rich.table import Table

EVERY_S = 0.5
WIDTH_OF_FILES = 140


class Bars:
    """One progress bar at a time, under a line that names the part of the bench."""

    def __init__(self) -> None:
        columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=_console(), refresh_per_second=1 / EVERY_S)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, markup=False)

    def show(self, table: Table) -> None:
        self._progress.console.print(table)

    @contextlib.contextmanager
    def bar(self, name: str, total: int) -> Iterator[Bar]:
        task = self._progress.add_task(name, total=total)
        try:
            yield Bar(self._progress, task)
        finally:
            self._progress.remove_task(task)


@dataclass
class Bar:
    """``one`` is called for each completed item, or ``at`` with the number of completed items."""

    _progress: Progress
    _task: TaskID
    _done: int = 0
    _move_s: float = 0.0

    def one(self, _about: str = "") -> None:
        self.at(self._done + 1)

    def at(self, done: int) -> None:
        self._done = done
        now_s = time.monotonic()
        if now_s >= self._move_s:
            self._move_s = now_s + EVERY_S
            self._progress.update(self._task, completed=done)


def _console() -> Console:
    console = Console(stderr=True, highlight=False)
    return console if console.is_terminal else Console(stderr=True, highlight=False, width=WIDTH_OF_FILES)
