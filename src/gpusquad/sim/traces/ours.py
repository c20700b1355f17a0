"""gpusquad's own traces: the fields of a job file, one job per line (JSONL) or as flat columns (Parquet).

Additional fields: ``run`` (run time alone on its cards), ``outcome`` and ``workload``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from gpusquad.model.codec import job_from_dict, job_to_dict
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields, seconds
from gpusquad.registry import register
from gpusquad.sim.traces._base import Lines, Ran, TraceJob

_MAX_LINE = 1 << 20
_TRUTH = ("run", "outcome", "workload")
_NESTED = ("share", "slo", "profile", "checkpoint")
_LISTS = ("roles", "gpu_model")
_FLAT_TYPES = {
    "id": "string", "name": "string", "tenant": "string", "user": "string", "queue": "string", "priority": "string",
    "lane": "string", "app": "string", "submitted": "float64", "estimate": "float64", "limit": "float64",
    "count": "int64", "min": "int64", "max": "int64", "gpus": "int64", "cpu": "float64", "memory": "int64",
    "gpu_memory": "int64", "card": "string", "gpu_model": "string", "roles": "string",
    "share.memory": "int64", "share.sm": "float64",
    "slo.deadline": "float64", "slo.latency": "float64", "slo.throughput": "float64", "slo.availability": "float64",
    "profile.utilisation": "float64", "profile.memory": "int64", "profile.bandwidth": "float64",
    "profile.source": "string",
    "checkpoint.every": "float64", "checkpoint.restart": "float64", "checkpoint.preemptible": "bool_",
    "run": "float64", "outcome": "string", "workload": "string",
}  # fmt: skip


@register("reader", "jsonl")
@dataclass(frozen=True)
class OwnLines:
    """Our own JSONL: the fields of a job file, with run, outcome and workload."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        first = next((line for line in first_lines if line.strip()), "")
        return first.lstrip().startswith("{")

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        for line in lines:
            if not line.strip():
                continue
            try:
                yield from_dict(_parsed(line))
            except Invalid as error:
                lines.bad(f"{error.field}: {error.problem}", error.cure)


@register("reader", "parquet")
@dataclass(frozen=True)
class OwnParquet:
    """Our own Parquet: the same fields as flat columns (needs gpusquad[traces])."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        return bool(first_lines) and first_lines[0].startswith("PAR1")

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        parquet = _pyarrow("pyarrow.parquet")
        try:
            table = parquet.ParquetFile(lines.path)
            rows = (row for batch in table.iter_batches() for row in batch.to_pylist())
            for number, row in enumerate(rows, 1):
                try:
                    yield from_dict(_unflatten(row))
                except Invalid as error:
                    lines.bad(f"{error.field}: {error.problem}", error.cure, line=number)
        except _pyarrow("pyarrow").ArrowException as error:
            raise Invalid("trace", f"{lines.name} is not a Parquet file: {str(error)[:200]}") from None


def from_dict(data: object, where: str = "") -> TraceJob:
    """One past job from plain data."""
    if not isinstance(data, dict):
        raise Invalid(where or "line", "expected a job: {…}")
    truth = Fields({name: data[name] for name in _TRUTH if name in data}, where, _TRUTH)
    job = job_from_dict({name: value for name, value in data.items() if name not in _TRUTH}, where)
    run_us = truth.optional_us("run")
    if run_us is None:
        raise Invalid(truth.at("run"), "is missing", "give the run time, in seconds or as 2h")
    if run_us == 0:
        raise Invalid(truth.at("run"), "is zero")
    outcome = truth.choice("outcome", "succeeded", ("succeeded", "failed"))
    return TraceJob(job, run_us, cast(Ran, outcome), truth.text("workload"))


def to_dict(row: TraceJob) -> dict:
    """Plain data that ``from_dict`` reads back to an equal job."""
    result = job_to_dict(row.job) | {"run": seconds(row.run_us)}
    if row.outcome != "succeeded":
        result["outcome"] = row.outcome
    if row.workload:
        result["workload"] = row.workload
    return result


def write_jsonl(path: str | Path, jobs: Iterable[TraceJob]) -> None:
    """A trace as JSONL."""
    with Path(path).open("w", encoding="utf-8") as file:
        for row in jobs:
            file.write(json.dumps(to_dict(row), ensure_ascii=False) + "\n")


def write_parquet(path: str | Path, jobs: Iterable[TraceJob]) -> None:
    """A trace as Parquet. Several roles have no flat form and are stored as JSON in one column."""
    arrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    rows = [_flatten(to_dict(row)) for row in jobs]
    columns = {
        name: arrow.array([row.get(name) for row in rows], type=getattr(arrow, kind)())
        for name, kind in _FLAT_TYPES.items()
        if any(name in row for row in rows)
    }
    parquet.write_table(arrow.table(columns), path)


def _parsed(line: str) -> object:
    if len(line) > _MAX_LINE:
        raise Invalid("line", f"has {len(line)} characters", f"keep it to {_MAX_LINE}")
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise Invalid("line", f"not JSON: {error.msg} at column {error.colno}") from None
    except (RecursionError, ValueError):
        raise Invalid("line", "not JSON we can read: nested too deep or a number too long") from None


def _flatten(data: dict) -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in data.items():
        if name in _NESTED:
            flat |= {f"{name}.{inner}": item for inner, item in value.items()}
        else:
            flat[name] = json.dumps(value) if name in _LISTS else value
    return flat


def _unflatten(row: dict[str, Any]) -> dict:
    data: dict = {}
    for column, value in row.items():
        if value is None:
            continue
        name, dot, inner = column.partition(".")
        if dot and name in _NESTED:
            data.setdefault(name, {})[inner] = value
        elif name in _LISTS and isinstance(value, str) and value[:1] == "[":
            data[name] = _parsed(value)
        else:
            data[column] = value
    return data


def _pyarrow(module: str) -> Any:
    """Imported on use, because few users need it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise Invalid("trace", "Parquet needs pyarrow", "pip install 'gpusquad[traces]'") from None
