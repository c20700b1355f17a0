"""Tables of the accuracy of predicted run times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell, TableColumn, table
from gpusquad.cli._times import span, stamp

Plain = Mapping[str, Any]
NOTHING = "–"


def predictions_view(answer: Plain, width: int) -> RenderableType:
    """Tables by tenant and by source, with a legend."""
    summary = f"{counted(answer['count'], 'run')} since {stamp(answer['since_s'])}"
    if not answer["count"]:
        return Text(f"{summary}: no finished runs with predictions yet", style="dim")
    legend = (
        "OFF: median distance from the predicted median, as a percentage of the actual run time. ERROR: mean distance. "
        "BY P50, P90, P99: runs that ended by that quantile; ideal are 50 %, 90 % and 99 %. BIAS: how much longer the "
        "median run took than predicted. CUT: stopped, preempted or lost runs, which are not scored."
    )
    return Group(
        _errors("TENANT", answer["tenants"], width), Text(), _errors("SOURCE", answer["sources"], width), Text(),
        Text(summary, style="dim"), Text(legend, style="dim"),
    )  # fmt: skip


def _errors(head: str, rows: Sequence[Plain], width: int) -> RenderableType:
    columns = (
        TableColumn(head, max_width=24, min_width=8),
        TableColumn("RUNS", right=True),
        TableColumn("CUT", right=True, from_width=60),
        TableColumn("OFF", right=True),
        TableColumn("ERROR", right=True, from_width=70),
        TableColumn("BY P50", right=True),
        TableColumn("BY P90", right=True),
        TableColumn("BY P99", right=True, from_width=80),
        TableColumn("BIAS", right=True, from_width=80),
        TableColumn("PINBALL", right=True, from_width=100),
    )
    return table(columns, [_cells(row) for row in rows], width)


def _cells(row: Plain) -> Sequence[Cell]:
    return (
        row["key"], f"{row['count']:,}", f"{row['cut']:,}", percent(row["median_ratio"]), _span(row["mean_error_s"]),
        percent(row["within_p50"]), percent(row["within_p90"]), percent(row["within_p99"]), bias(row["bias"]),
        _span(row["pinball_s"]),
    )  # fmt: skip


def percent(ratio: float | None) -> str:
    return NOTHING if ratio is None else f"{100 * ratio:.0f} %"


def bias(log_ratio: float | None) -> str:
    """Percentage of the predicted median: +20 % means that runs take 20 % longer than predicted."""
    from math import expm1

    return NOTHING if log_ratio is None else f"{100 * expm1(min(log_ratio, 20.0)):+.0f} %"


def _span(seconds: float | None) -> str:
    return NOTHING if seconds is None else span(seconds)
