"""One job: facts, and the requests that the service chose beside what was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from gpusquad.cli._answers import SOURCES
from gpusquad.cli._jobs import cards, cause, ending
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._sizes import size
from gpusquad.cli._tables import Cell, PipeTable, TableColumn, table
from gpusquad.cli._times import clock, span

Plain = Mapping[str, Any]


def job_facts(job: Plain, now_s: float) -> Iterator[tuple[str, Cell]]:
    """Name and value of each fact; those without a value are left out by the caller."""
    yield "id", job["id"]
    yield "owner", f"{one_line(job['user'])} of tenant {one_line(job['tenant'])}"
    each = f", {counted(job['tasks'], 'task')}" if job["tasks"] > 1 else ""
    yield "GPUs", f"{job['gpus']}{each}"
    yield "submitted", clock(job["submitted_s"], now_s)
    yield "started", clock(job["started_s"], now_s) if job["started_s"] else ""
    yield "ended", clock(job["ended_s"], now_s) if job["ended_s"] else ""
    yield "cards", cards(job["placement"])
    yield "cause", cause(job)
    yield "result", ending(job)
    yield "predicted", _predicted(job["forecast"])
    yield "estimator", _estimator(job["estimator"])
    yield "used", _used(job["used"])


def auto_table(job: Plain, width: int) -> Table | PipeTable:
    """One row per field that was left open: what was chosen, where it is from, and what was used."""
    columns = (
        TableColumn("AUTO"),
        TableColumn("CHOSEN", right=True),
        TableColumn("USED", right=True),
        TableColumn("SOURCE"),
        TableColumn("WHY", wraps=True),
    )
    rows = [
        (one["field"], "none" if one["value"] is None else str(one["value"]), amount_text(one["field"], one["used"]),
         one["source"], one["why"])
        for one in job["auto"]
    ]  # fmt: skip
    return table(columns, rows, width)


def amount_text(field: str, amount: float | None) -> str:
    """``2.4`` cores or GPUs, ``3.1 GiB``; empty if it was not measured."""
    if amount is None:
        return ""
    return f"{amount:.3g}" if field in ("cpu", "gpus") else size(round(amount))


def _predicted(forecast: Plain | None) -> str:
    if not forecast or forecast["mid_s"] is None:
        return ""
    high = f", {span(forecast['high_s'])} in nine of ten cases" if forecast["high_s"] is not None else ""
    return f"{span(forecast['mid_s'])}{high} ({SOURCES.get(forecast['source'], one_line(forecast['source']))})"


def _estimator(estimator: Plain | None) -> str:
    if estimator is None:
        return ""
    if estimator["state"] == "waiting":
        return "runs"
    if estimator["warning"]:
        return f"not used: {one_line(estimator['warning'])}"
    given = ", ".join(f"{name} {value}" for name, value in estimator["fields"].items())
    how = "cached" if estimator["cached"] else f"in {estimator['took_s']:.1f} s"
    return f"{one_line(given)} (by {one_line(estimator['command'])}, {how})"


def _used(used: Plain | None) -> str:
    if used is None:
        return ""
    units = {"cpu": "cores", "memory": "of memory", "gpu_memory": "of GPU memory", "gpus": "GPUs"}
    known = [f"{amount_text(name, used[name])} {unit}" for name, unit in units.items() if used[name] is not None]
    return f"{', '.join(known)} (peaks of a task in attempt {used['attempt'] + 1})" if known else ""
