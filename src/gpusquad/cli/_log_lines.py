"""Prints logs line by line, with task names if there are several, and without unsafe characters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpusquad.cli._sanitize import log_line, one_line
from gpusquad.cli._service import note

if TYPE_CHECKING:
    from gpusquad.client.logs import LogChunk

MAX_LINE_CHARS = 1 << 16
"""A longer line is printed in pieces of this size."""
_LINE_ENDS = re.compile(r"\r*\n|\r(?!\r*(?:\n|\Z))")
"""A lone carriage return also starts a line, as in progress bars. At the end of a chunk it may belong to the next."""


class LogPrinter:
    """Prints chunks of logs. Keeps the incomplete last line of each task."""

    def __init__(self, names: Mapping[int, str], raw: bool) -> None:
        self._names = names
        self._raw = raw
        self._rest: dict[int, str] = {}
        self._attempt: int | None = None

    @classmethod
    def for_job(cls, view: Mapping[str, Any], task: int | str, raw: bool) -> LogPrinter:
        """Lines are prefixed with task names only if several tasks are shown."""
        several = task == "all" and view["tasks"] > 1
        return cls(task_names(view["placement"], view["tasks"]) if several else {}, raw)

    def show(self, chunk: LogChunk) -> None:
        if self._attempt is not None and chunk.attempt != self._attempt:
            self.finish()
            note(f"— attempt {chunk.attempt} —")
        self._attempt = chunk.attempt
        if self._raw and not self._names:
            _write(chunk.text)
            return
        *whole, rest = _LINE_ENDS.split(self._rest.get(chunk.task, "") + chunk.text)
        pieces = list(_pieces(rest))
        self._rest[chunk.task] = pieces.pop() if pieces else ""
        self._print(chunk.task, [*whole, *pieces])

    def finish(self) -> None:
        """Print the last lines that have no line end."""
        for task, rest in self._rest.items():
            if rest:
                self._print(task, [rest.removesuffix("\r")])
        self._rest.clear()

    def _print(self, task: int, lines: list[str]) -> None:
        if not lines:
            return
        name = f"{self._names.get(task, f'[{task}]')} " if self._names else ""
        _write("".join(f"{name}{line if self._raw else log_line(line)}\n" for line in lines))


def task_names(placement: list[Mapping[str, Any]], count: int) -> dict[int, str]:
    """``[worker-1]`` if the service reports roles, otherwise ``[1]``."""
    names = {task: f"[{task}]" for task in range(count)}
    for place in placement:
        if place.get("role") and place.get("role_index") is not None:
            names[place["task"]] = f"[{one_line(place['role'])}-{place['role_index']}]"
    return names


def _write(text: str) -> None:
    """Write unchanged. ``typer.echo`` would strip escape sequences if stdout is not a terminal."""
    sys.stdout.write(text.encode("utf-8", "replace").decode())
    sys.stdout.flush()


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), MAX_LINE_CHARS):
        yield text[start : start + MAX_LINE_CHARS]
