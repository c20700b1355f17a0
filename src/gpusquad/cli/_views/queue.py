"""Table of running and pending jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._jobs import (
    FINAL,
    ON_CARDS,
    STYLES,
    cards,
    cause,
    forecast_text,
    short,
    state_text,
    time_in_state,
    words,
)
from gpusquad.cli._service import counted
from gpusquad.cli._tables import TableColumn, table
from gpusquad.cli._views.resources import gpus

ROOMY = 110
"""Terminal width from which reasons are shown as sentences instead of codes."""

COLUMNS = (
    TableColumn("#", right=True, style="dim"),
    TableColumn("JOB"),
    TableColumn("NAME", max_width=28, min_width=12),
    TableColumn("USER", max_width=14, min_width=6, from_width=90),
    TableColumn("TENANT", max_width=14, from_width=140),
    TableColumn("GPUS", right=True),
    TableColumn("STATE"),
    TableColumn("FOR", right=True, from_width=100),
    TableColumn("NEXT", max_width=28, min_width=12),
    TableColumn("WHERE / WHY", wraps=True, style="dim", from_width=72),
)


def queue_view(answer: Mapping[str, Any], now_s: float, width: int) -> RenderableType:
    """Running jobs, pending jobs, jobs that the service holds, and a summary."""
    listed = {job["id"] for job in answer["items"]}
    held = [job for job in answer["held"] if job["id"] not in listed]
    rows = [job_row(job, now_s, width) for job in (*answer["running"], *answer["items"], *held)]
    summary = Text(_summary(answer), style="dim")
    return Group(table(COLUMNS, rows, width), Text(), summary) if rows else summary


def job_row(job: Mapping[str, Any], now_s: float, width: int) -> Sequence[str | Text]:
    position = job.get("position")
    return (
        "" if position is None else str(position),
        short(job["id"]),
        job["name"],
        job["user"],
        job["tenant"],
        gpus(job),
        Text(state_text(job, roomy=width >= ROOMY), style=_style(job)),
        time_in_state(job, now_s),
        forecast_text(job, now_s),
        _detail(job, width),
    )


def _style(job: Mapping[str, Any]) -> str:
    return "bold red" if job.get("hang_warnings") else STYLES.get(job["state"], "")


def _detail(job: Mapping[str, Any], width: int) -> str:
    if job["state"] in ON_CARDS:
        return (
            cards(job["placement"]) if width >= ROOMY else " ".join(dict.fromkeys(p["node"] for p in job["placement"]))
        )
    reason = job.get("reason")
    if width < ROOMY and job["state"] == "pending" and reason and reason.get("code"):
        return words(reason["code"])
    return cause(job)


def _summary(answer: Mapping[str, Any]) -> str:
    counts, shown = answer.get("counts") or {}, len(answer["items"])
    order = ("running", "starting", "pending", "held")
    parts = [f"{counts[state]:,} {words(state)}" for state in order if counts.get(state)]
    parts += [f"{n:,} {words(state)}" for state, n in counts.items() if n and state not in order and state not in FINAL]
    text = " · ".join(parts) or "no running or pending jobs"
    if answer.get("next") and shown:
        text += f"; {counted(shown, 'pending job')} shown, use --limit N for more"
    return text
