"""Table of the accuracy of start forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._tables import TableColumn, table
from gpusquad.cli._times import span
from gpusquad.cli._views.predictions import NOTHING, percent

Plain = Mapping[str, Any]
LEGEND = (
    "Start forecasts, made when the job was submitted. 10 MIN: started within ten minutes of the forecast (ARCHER2 "
    "reports three of four jobs). FACTOR 2: waited half to twice as long as forecast. BY P50, P90: started by then; "
    "ideal are 50 % and 90 %."
)


def waits_view(waits: Plain, width: int) -> RenderableType:
    """One row per tenant, and one for all of them."""
    if not waits["total"]["count"]:
        return Text("Start forecasts: no job that waited has started yet")
    columns = (
        TableColumn("TENANT", max_width=24, min_width=8),
        TableColumn("WAITED", right=True),
        TableColumn("10 MIN", right=True),
        TableColumn("FACTOR 2", right=True),
        TableColumn("BY P50", right=True),
        TableColumn("BY P90", right=True),
        TableColumn("ERROR", right=True, from_width=70),
        TableColumn("WAIT", right=True, from_width=80),
    )
    lines = [*waits["tenants"], waits["total"] | {"key": "all"}]
    rows = [
        (one["key"], f"{one['count']:,}", percent(one["within_10min"]), percent(one["within_factor_2"]),
         percent(one["within_p50"]), percent(one["within_p90"]), _span(one["median_error_s"]),
         _span(one["median_wait_s"]))
        for one in (lines[:-1] if len(lines) == 2 else lines)
    ]  # fmt: skip
    return Group(table(columns, rows, width), Text(), Text(LEGEND, style="dim"))


def _span(seconds: float | None) -> str:
    return NOTHING if seconds is None else span(seconds)
