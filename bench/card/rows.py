"""Results as lines of JSON that are only added to: a run that is cut off loses the block it was in, and no more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class RowFile:
    """One file. Several benches may share it: each row names its own."""

    def __init__(self, path: Path, known: Iterable[Path] = ()) -> None:
        """``known``: files of earlier runs. Their rows count as well, and the files are not changed."""
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        before = read_all(one for one in known if one.exists() and one.resolve() != path.resolve())
        self.rows: list[Row] = [*before, *(_read(path) if path.exists() else [])]
        """All known rows, including those added by this run."""

    def add(self, row: Mapping[str, Any]) -> None:
        """On the disk before it is counted: the machine may be taken away at any moment."""
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        with self._path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(dict(row))

    def of(self, bench: str, kind: str) -> list[Row]:
        return chosen(self.rows, bench, kind)


def chosen(rows: Iterable[Row], bench: str, kind: str) -> list[Row]:
    return [row for row in rows if row.get("bench") == bench and row.get("kind") == kind]


def read_all(paths: Iterable[Path]) -> list[Row]:
    """Several sittings may have written several files."""
    return [row for path in paths for row in _read(path, repair=False)]


def _read(path: Path, repair: bool = True) -> list[Row]:
    """A last line without an end was cut off in the middle. It is taken away, or the next row would be glued to it."""
    content = path.read_bytes()
    whole, newline, rest = content.rpartition(b"\n")
    if rest and repair:
        os.truncate(path, len(whole) + len(newline))
    return [row for line in whole.split(b"\n") if (row := _row(line)) is not None]


def _row(line: bytes) -> Row | None:
    """None: not a row. A full disk can leave half a row in the middle of a file."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
