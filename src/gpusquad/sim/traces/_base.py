"""Common to all readers: the jobs they return, the lines they read, and the reports of bad lines."""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Protocol, runtime_checkable

from gpusquad.model.cluster import Cluster
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_US
from gpusquad.model.job import Job, Request, Role
from gpusquad.model.units import US_PER_S

Ran = Literal["succeeded", "failed"]
HEAD_CHARS = 1 << 16
"""Bytes of a file that are read to detect its format."""
_KEPT_REASONS = 20
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A past job: its request and what happened."""

    job: Job
    run_us: int
    """Run time alone on its cards."""
    outcome: Ran = "succeeded"
    workload: str = ""
    """Name of the program in co-location tables: ``ResNet-18 (batch size 32)``."""


@dataclass(slots=True)
class Trace:
    """All jobs of a file by submission; jobs of one instant in file order."""

    jobs: list[TraceJob]
    cluster: Cluster | None = None
    """The cluster that the trace comes from, if the file describes it."""
    skipped: list[str] = field(default_factory=list)
    """The first reasons why lines were skipped."""
    skipped_count: int = 0
    format: str = ""


class BadLine(Invalid):
    """A line of a trace that cannot be used."""

    def __init__(self, name: str, line: int, problem: str, cure: str = "") -> None:
        self.name = name
        self.line = line
        super().__init__(f"{name}, line {line}", problem, cure)


class Lines:
    """The lines of a trace without line ends. It tracks the position and handles bad lines."""

    def __init__(self, source: Iterable[str], name: str = "trace", path: Path | None = None, skip_bad: bool = False):
        self._source = iter(source)
        self.name = name
        self.path = path
        self.skip_bad = skip_bad
        self.number = 0
        self.reasons: list[str] = []
        self.bad_count = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._source:
            self.number += 1
            yield line

    def bad(self, problem: str, cure: str = "", line: int | None = None) -> None:
        """Raise, or count and continue."""
        error = BadLine(self.name, self.number if line is None else line, problem, cure or "fix it, or skip bad lines")
        if not self.skip_bad:
            raise error
        self.bad_count += 1
        if len(self.reasons) < _KEPT_REASONS:
            self.reasons.append(f"line {error.line}: {problem}")

    def folder(self) -> Path:
        """Path of the trace, for readers that need a second file."""
        return self.path.parent if self.path is not None else Path()


class Reader(Protocol):
    """One trace format. Its dataclass fields are its parameters."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        """Whether the file has this format."""
        ...

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        """Every job, in file order. Bad lines go to ``lines.bad``."""
        ...


@runtime_checkable
class TellsCluster(Protocol):
    """A reader whose files also describe the cluster."""

    def cluster(self, first_lines: list[str]) -> Cluster | None: ...


def open_text(path: Path) -> IO[str]:
    """A text file, compressed or not. Undecodable bytes are replaced: comments in old logs contain some."""
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP
    if packed:
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="replace")
    return path.open(encoding="utf-8-sig", errors="replace")


def has_columns(first_lines: list[str], *names: str) -> bool:
    """Whether the header names all of these columns."""
    header = {cell.strip().strip('"') for cell in first_lines[0].split(",")} if first_lines else set()
    return set(names) <= header


def table(lines: Lines, *required: str) -> Iterator[dict[str, str]]:
    """The rows of a CSV file with a header. Rows of another width are bad."""
    reader = csv.reader(iter(lines))
    header: list[str] | None = None
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            lines.bad(f"not a table: {error}")
            continue
        if row is None:
            return
        if not row:
            continue
        if header is None:
            header = _header(row, required, lines)
        elif len(row) != len(header):
            lines.bad(f"{len(row)} columns where the header has {len(header)}")
        else:
            yield dict(zip(header, row, strict=True))


def each(
    lines: Lines, rows: Iterable[dict[str, str]], make: Callable[[dict[str, str]], TraceJob | None]
) -> Iterator[TraceJob]:
    """``make`` of every row. A row that it finds invalid is a bad line; a row for which it returns None is skipped."""
    for row in rows:
        try:
            job = make(row)
        except Invalid as error:
            lines.bad(f"{error.field}: {error.problem}", error.cure)
        else:
            if job is not None:
                yield job


def cell_float(row: dict[str, str], name: str, *, low: float = 0.0) -> float:
    """A finite number."""
    text = row[name]
    try:
        value = float(text)
    except ValueError:
        raise Invalid(name, f"{text[:40]!r} is not a number") from None
    if not math.isfinite(value) or value < low:
        raise Invalid(name, f"{text[:40]} is below {low:g} or not finite")
    return value


def cell_int(row: dict[str, str], name: str, *, low: int = 0) -> int:
    """A whole number (``4`` or ``4.0``)."""
    value = cell_float(row, name, low=low)
    if value != int(value):
        raise Invalid(name, f"{row[name]} is not a whole number")
    return int(value)


def cell_us(row: dict[str, str], name: str, us_per_unit: int = US_PER_S) -> int:
    """A time, in seconds unless stated otherwise."""
    return to_us(cell_float(row, name) * us_per_unit, name)


def cell_run_us(row: dict[str, str], name: str, us_per_unit: int = US_PER_S) -> int:
    """A run time: greater than zero."""
    value = cell_us(row, name, us_per_unit)
    if value < 1:
        raise Invalid(name, "the job did not run")
    return value


def to_us(value: float, name: str) -> int:
    if value > MAX_US:
        raise Invalid(name, f"{value / US_PER_S:g} seconds is too long")
    return round(value)


class Gangs:
    """Makes the roles of a gang from its number of GPUs. Equal gangs share one object, so the core sees few shapes."""

    def __init__(self, node_gpus: int) -> None:
        if node_gpus < 1:
            raise Invalid("node_gpus", f"{node_gpus} is less than one")
        self._node_gpus = node_gpus
        self._made: dict[int, tuple[Role, ...]] = {}
        self._requests: dict[int, Request] = {}

    def __call__(self, gpus: int) -> tuple[Role, ...]:
        roles = self._made.get(gpus)
        if roles is None:
            roles = self._made[gpus] = self._make(gpus)
        return roles

    def _make(self, gpus: int) -> tuple[Role, ...]:
        """As few tasks as the nodes allow: of equal size if the GPUs divide evenly, otherwise full nodes and a
        remainder.
        """
        if gpus == 0:
            # Traces do not say what a CPU-only job needs. One core makes it occupy something.
            return (Role("worker", 1, Request(cpu_milli=1000)),)
        tasks = -(-gpus // self._node_gpus)
        if gpus % tasks == 0:
            return (Role("worker", tasks, self._request(gpus // tasks)),)
        full, rest = divmod(gpus, self._node_gpus)
        return Role("worker", full, self._request(self._node_gpus)), Role("rest", 1, self._request(rest))

    def _request(self, gpus: int) -> Request:
        return self._requests.setdefault(gpus, Request(gpus=gpus))


def _header(row: list[str], required: tuple[str, ...], lines: Lines) -> list[str]:
    header = [cell.strip() for cell in row]
    missing = [name for name in required if name not in header]
    if missing:
        raise BadLine(lines.name, lines.number, f"no column {', '.join(missing)}", "is it another format?")
    return header
