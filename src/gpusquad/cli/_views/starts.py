"""Tables of promised starts: kept, late, by how much and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._jobs import short
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell, TableColumn, table
from gpusquad.cli._times import span, stamp

Plain = Mapping[str, Any]
NOTHING = "–"
CAUSES = {
    "guest_overstayed": "a backfilled job overstayed", "ahead_overran": "a job ahead ran longer than predicted",
    "arrived_ahead": "a job with precedence arrived", "requeued_ahead": "a job ahead came back",
    "capacity_lost": "GPUs or nodes were lost", "policy_changed": "the policies were changed",
    "changed": "a job was changed", "restarted": "the service was restarted", "other": "not known",
}  # fmt: skip
LEGEND = (
    "LATE: start after the reserved start that was promised first; up to a second is kept. HEAD DELAY: how much later "
    "the head of the queue started than if no job behind it had started before it."
)


def starts_view(starts: Plain, width: int) -> RenderableType:
    """A summary, the causes, and the latest starts with what delayed each."""
    summary = Text(f"{_kept(starts)}\n{_heads(starts['heads'])}")
    legend = Text(LEGEND, style="dim")
    if not starts["late"]:
        return Group(summary, legend) if starts["count"] or starts["heads"]["count"] else summary
    return Group(_causes(starts["causes"], width), Text(), _latest(starts["latest"], width), Text(), summary, legend)


def _kept(starts: Plain) -> str:
    if not starts["count"]:
        return "Promised starts: none yet"
    text = f"Promised starts: {starts['kept']:,} of {starts['count']:,} kept"
    if not starts["late"]:
        return text
    return f"{text}; {starts['late']:,} late, median {span(starts['median_s'])}, worst {span(starts['worst_s'])}"


def _heads(heads: Plain) -> str:
    if not heads["count"]:
        return "True head delay: none measured yet"
    text = f"True head delay: {heads['delayed']:,} of {counted(heads['count'], 'head')} delayed"
    if not heads["delayed"]:
        return text
    return f"{text}, median {span(heads['median_s'])}, worst {span(heads['worst_s'])}"


def _causes(causes: Sequence[Plain], width: int) -> RenderableType:
    columns = (
        TableColumn("CAUSE"),
        TableColumn("STARTS", right=True),
        TableColumn("MEDIAN", right=True),
        TableColumn("WORST", right=True),
    )
    rows = [(_words(one), f"{one['count']:,}", _span(one["median_s"]), _span(one["worst_s"])) for one in causes]
    return table(columns, rows, width)


def _latest(late: Sequence[Plain], width: int) -> RenderableType:
    columns = (
        TableColumn("JOB"),
        TableColumn("NAME", max_width=20, min_width=8),
        TableColumn("USER", max_width=14, from_width=100),
        TableColumn("TENANT", max_width=14, from_width=140),
        TableColumn("PROMISED", from_width=90),
        TableColumn("LATE", right=True),
        TableColumn("HEAD DELAY", right=True, from_width=80),
        TableColumn("WHY", wraps=True),
    )
    return table(columns, list(_rows(late)), width)


def _rows(late: Sequence[Plain]) -> Iterator[Sequence[Cell]]:
    for one in late:
        yield (
            short(one["job"]), one["name"], one["user"], one["tenant"], stamp(one["promised_s"]), _span(one["late_s"]),
            _span(one["head_delay_s"]), _why(one),
        )  # fmt: skip


def _why(one: Plain) -> str:
    if not one.get("cause_job"):
        return _words(one)
    job, user, tenant = (one_line(one[name]) for name in ("cause_job", "cause_user", "cause_tenant"))
    return f"{_words(one)}: {short(job)} of {user} (tenant {tenant})"


def _words(one: Plain) -> str:
    return CAUSES.get(one["cause"], one_line(one["cause"]))


def _span(seconds: float | None) -> str:
    return NOTHING if seconds is None else span(seconds)
