"""Table of GPU hours with bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._jobs import short
from gpusquad.cli._tables import TableColumn, bar, table
from gpusquad.cli._times import stamp

BAR = 20


def usage_view(
    rows: Sequence[Mapping[str, Any]], by: str, since_s: float, until_s: float, width: int
) -> RenderableType:
    total = sum(row["gpu_hours"] for row in rows)
    most = max((row["gpu_hours"] for row in rows), default=0.0)
    summary = Text(f"{total:,.1f} GPU hours from {stamp(since_s)} to {stamp(until_s)}", style="dim")
    if not rows:
        return summary
    columns = (
        TableColumn(by.upper(), max_width=30, min_width=10),
        TableColumn("TENANT", max_width=16, from_width=60 if by != "tenant" else 10_000),
        TableColumn("GPU HOURS", right=True),
        TableColumn("SHARE", right=True),
        TableColumn("", from_width=70, style="cyan"),
        TableColumn("JOBS", right=True, from_width=50),
        TableColumn("ATTEMPTS", right=True, from_width=80),
    )
    cells = [
        (
            short(row["key"]) if by == "job" else row["key"],
            row["tenant"],
            f"{row['gpu_hours']:,.1f}",
            f"{100 * row['gpu_hours'] / total:.0f} %" if total else "",
            Text(bar(row["gpu_hours"] / most if most else 0.0, BAR)),
            f"{row['jobs']:,}",
            f"{row['attempts']:,}",
        )
        for row in rows
    ]
    return Group(table(columns, cells, width), Text(), summary)
