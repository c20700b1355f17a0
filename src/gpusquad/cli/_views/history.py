"""Table of past jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._jobs import STYLES, cause, ending, short, words
from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell, TableColumn, table
from gpusquad.cli._times import relative, span
from gpusquad.cli._views.resources import gpus

COLUMNS = (
    TableColumn("JOB"),
    TableColumn("NAME", max_width=28, min_width=12),
    TableColumn("USER", max_width=14, min_width=6, from_width=76),
    TableColumn("TENANT", max_width=14, min_width=6, from_width=130),
    TableColumn("GPUS", right=True),
    TableColumn("STATE"),
    TableColumn("SUBMITTED", right=True, from_width=100),
    TableColumn("WAITED", right=True, from_width=90),
    TableColumn("RAN", right=True),
    TableColumn("ENDED", right=True),
    TableColumn("WHY", wraps=True, style="dim", from_width=110),
)


def history_view(found: Mapping[str, Any], now_s: float, width: int) -> RenderableType:
    jobs = found["items"]
    if not jobs:
        return Text("no matching jobs", style="dim")
    shown = table(COLUMNS, (_row(job, now_s) for job in jobs), width)
    if not found.get("next"):
        return shown
    return Group(shown, Text(f"\n{counted(len(jobs), 'job')} shown; use --limit N for more", style="dim"))


def _row(job: Mapping[str, Any], now_s: float) -> tuple[Cell, ...]:
    started_s, ended_s = job["started_s"], job["ended_s"]
    waited_to_s = started_s if started_s is not None else ended_s if ended_s is not None else now_s
    return (
        short(job["id"]),
        job["name"],
        job["user"],
        job["tenant"],
        gpus(job),
        Text(words(job["state"]), style=STYLES.get(job["state"], "")),
        relative(job["submitted_s"], now_s),
        span(waited_to_s - job["submitted_s"]),
        "" if started_s is None else span((ended_s or now_s) - started_s),
        "" if ended_s is None else relative(ended_s, now_s),
        cause(job) or ending(job),
    )
