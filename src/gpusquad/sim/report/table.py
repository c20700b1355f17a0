"""Summaries in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpusquad.sim.metrics import Summary
from gpusquad.sim.report import text
from gpusquad.sim.report.lines import ReportCell, cells, lines

MAX_PARTIES = 20


def print_summary(summaries: Sequence[Summary], console: Console) -> None:
    """One result: its figures and tenants. Several: side by side, the best of each row marked."""
    if not summaries:
        console.print("No results.")
        return
    console.print(comparison(summaries))
    if len(summaries) == 1:
        if len(summaries[0].parties) > 1:
            console.print(party_table(summaries[0]))
    else:
        console.print(Text("★ best of the line, where better means something", style="dim"))


def comparison(summaries: Sequence[Summary]) -> Table:
    """All rows, one column per result."""
    table = Table(box=box.SIMPLE_HEAD, title=_title(summaries[0]), title_justify="left", title_style="bold")
    table.add_column("")
    for summary in summaries:
        # Text, not str, so that a label is never interpreted as markup.
        table.add_column(Text(text.plain(summary.label) or "result"), justify="right")
    for _, group in groupby(lines(summaries), key=lambda line: line.group):
        for line in group:
            table.add_row(line.label, *(_show(cell) for cell in cells(line, summaries)))
        table.add_section()
    return table


def party_table(summary: Summary) -> Table:
    """The tenants with the most GPU hours."""
    kind = summary.fairness.by
    shown = summary.parties[:MAX_PARTIES]
    rest = len(summary.parties) - len(shown)
    table = Table(box=box.SIMPLE_HEAD, caption=f"and {text.plural(rest, 'more ' + kind)}" if rest else None)
    table.add_column(kind.capitalize())
    for heading in ("Jobs", "GPU hours", "Wait", "JCT", "Slowdown", "Finish-time fairness"):
        table.add_column(heading, justify="right")
    for row in shown:
        table.add_row(
            Text(text.party(row.name)),
            text.count(row.jobs),
            text.number(row.gpu_hours),
            text.duration(row.wait_mean_s),
            text.duration(row.jct_mean_s),
            text.number(row.slowdown_mean),
            text.number(row.rho_mean),
        )
    return table


def _title(summary: Summary) -> str:
    return f"{text.plural(summary.gpus, 'GPU')} on {text.plural(summary.nodes, 'node')}"


def _show(cell: ReportCell) -> Text:
    # The star as well, because not every terminal has colours.
    return Text("★ " + cell.text, style="bold green") if cell.best else Text(cell.text)
