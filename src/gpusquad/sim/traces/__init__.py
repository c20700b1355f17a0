"""Trace readers: one per format, found by name or by looking at the file.

``read("KTH-SP2.swf.gz")`` detects the format; ``read(path, "philly:node_gpus=4")`` names it with parameters.
"""

from __future__ import annotations

import dataclasses
import zlib
from itertools import chain
from pathlib import Path
from typing import Any

from gpusquad import registry
from gpusquad.model.errors import Invalid
from gpusquad.sim.traces._base import (
    HEAD_CHARS,
    BadLine,
    Lines,
    Reader,
    TellsCluster,
    Trace,
    TraceJob,
    open_text,
)

__all__ = ["BadLine", "Lines", "Reader", "Trace", "TraceJob", "read"]


def read(path: str | Path, format: str | None = None, skip_bad: bool = False, **options: Any) -> Trace:  # noqa: A002
    """All jobs of a trace. ``format`` is a reader's name, with parameters if needed; ``options`` are further
    parameters.
    """
    path = Path(path)
    try:
        with open_text(path) as file:
            head = file.read(HEAD_CHARS)
            # Complete the last line, so that the reader starts with a whole line.
            head += "" if head.endswith("\n") else file.readline()
            first = head.removesuffix("\n").split("\n") if head else []
            name, reader = _reader(path, first, format, options)
            lines = Lines(chain(first, (line.rstrip("\n") for line in file)), path.name, path, skip_bad)
            return _collect(name, reader, lines, first)
    except FileNotFoundError:
        raise Invalid("trace", f"there is no file {str(path)!r}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid("trace", f"cannot read {str(path)!r}: {error}") from None


def _collect(name: str, reader: Reader, lines: Lines, first: list[str]) -> Trace:
    jobs: list[TraceJob] = []
    seen: set[str] = set()
    for row in reader.rows(lines):
        if row.job.id in seen:
            lines.bad(f"job {row.job.id!r} is there already")
            continue
        seen.add(row.job.id)
        jobs.append(row)
    if not jobs:
        why = f"; {lines.bad_count} bad lines, first {lines.reasons[0]}" if lines.reasons else ""
        raise Invalid("trace", f"there is no job in {lines.name}{why}")
    jobs.sort(key=lambda row: row.job.submitted_us)
    cluster = reader.cluster(first) if isinstance(reader, TellsCluster) else None
    return Trace(jobs, cluster, lines.reasons, lines.bad_count, name)


def _reader(path: Path, first: list[str], spec: str | None, options: dict[str, Any]) -> tuple[str, Reader]:
    if spec is None:
        name = _sniff(path, first)
        reader = registry.create("reader", name)
    else:
        name = spec.partition(":")[0].strip()
        reader = registry.create("reader", spec)
    if not options:
        return name, reader
    known = [field.name for field in dataclasses.fields(reader)]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise Invalid(f"reader.{name}.{unknown[0]}", "is not a parameter", f"parameters: {', '.join(known) or 'none'}")
    return name, dataclasses.replace(reader, **options)


def _sniff(path: Path, first: list[str]) -> str:
    names = registry.names("reader")
    for name in names:
        if registry.create("reader", name).sniff(path.name, first):
            return name
    raise Invalid("trace", f"cannot tell the format of {path.name}", f"name it, one of {', '.join(names)}")
