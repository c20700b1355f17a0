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
from gpusquad.cli._times import clock, relative, span
from gpusquad.cli._views.resources import request_text

Plain = Mapping[str, Any]


def job_facts(job: Plain, now_s: float) -> Iterator[tuple[str, Cell]]:
    """Name and value of each fact; those without a value are left out by the caller."""
    yield "id", job["id"]
    yield "owner", f"{one_line(job['user'])} of tenant {one_line(job['tenant'])}"
    yield "labels", _labels(job)
    each = f", {counted(job['tasks'], 'task')}" if job["tasks"] > 1 else ""
    yield "GPUs", f"{request_text(job) if job['share'] else job['gpus']}{each}"
    yield "SLO", _slo(job["slo"], now_s)
    yield "submitted", clock(job["submitted_s"], now_s)
    yield "waits for", ", ".join(f"the {one['on']} of {one['job']}" for one in job["after"])
    yield "attempt", _attempt(job, now_s)
    yield "started", clock(job["started_s"], now_s) if job["started_s"] else ""
    yield "ended", clock(job["ended_s"], now_s) if job["ended_s"] else ""
    yield "cards", cards(job["placement"])
    yield "cause", cause(job)
    yield "result", ending(job)
    yield "progress", _progress(job["progress"])
    yield "time limit", span(job["limit_s"]) if job["limit_s"] else ""
    yield "estimate", span(job["estimate_s"]) if job["estimate_s"] else ""
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
    if field not in ("cpu", "gpus"):
        return size(round(amount))
    return f"{amount:.0f}" if amount >= 100 else f"{amount:.3g}"


def _labels(job: Plain) -> str:
    named = (("priority", "normal"), ("lane", ""), ("queue", ""))
    return ", ".join(f"{name} {one_line(job[name])}" for name, usual in named if job[name] != usual)


def _slo(slo: Plain | None, now_s: float) -> str:
    if slo is None:
        return ""
    deadline_s, latency_s, availability = slo["deadline_s"], slo["latency_s"], slo["availability"]
    judged = {True: ", met", False: ", missed", None: ""}[slo["deadline_met"]]
    parts = (
        f"deadline {clock(deadline_s, now_s)}, {relative(deadline_s, now_s)}{judged}" if deadline_s is not None else "",
        f"latency {latency_text(latency_s)}" if latency_s is not None else "",
        f"throughput {slo['throughput']:g}/s" if slo["throughput"] is not None else "",
        f"availability {100 * availability:g} %" if availability is not None else "",
    )
    return "; ".join(part for part in parts if part) + _attainment(slo)


def _attainment(slo: Plain) -> str:
    """Of the targets of a running job other than its deadline."""
    if slo["unknown"]:
        return " (unknown: no report)"
    return "" if slo["attainment_ratio"] is None else f" ({100 * slo['attainment_ratio']:.3g} % met)"


def latency_text(seconds: float) -> str:
    return f"{1000 * seconds:g} ms" if seconds < 1 else f"{seconds:g} s"


def _attempt(job: Plain, now_s: float) -> str:
    next_s = job["next_attempt_s"]
    left, losses = job["retries_left"], job["losses"]
    parts = (
        str(job["attempt"] + 1) if job["attempt"] or left else "",
        f"{left} {'retry' if left == 1 else 'retries'} left" if left else "",
        f"lost {counted(losses, 'time')}" if losses else "",
        f"next one {relative(max(next_s, now_s), now_s)}" if next_s is not None else "",
    )
    return ", ".join(part for part in parts if part)


def _progress(progress: Plain | None) -> str:
    if progress is None or progress["step"] is None:
        return ""
    of = f" of {progress['total']:g} ({100 * progress['ratio']:.0f} %)" if progress["total"] else ""
    return f"step {progress['step']:g}{of}"


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
