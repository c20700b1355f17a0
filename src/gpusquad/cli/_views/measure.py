"""Measurement series on the terminal: coloured table of speeds, significant differences, list of series."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import GAP, TableColumn, table
from gpusquad.cli._times import stamp
from gpusquad.measure.analysis.summary_text import Findings, findings
from gpusquad.measure.charts.heatmap import MARKS, HeatMap, Tile, speed_map
from gpusquad.measure.charts.heatmap_html import facts
from gpusquad.measure.charts.shades import as_hex, ink_on, shade
from gpusquad.measure.series_files import SkippedFile, StoredSeries
from gpusquad.model.interference import CoRun, MeasurementSeries
from gpusquad.model.units import US_PER_S, show_bytes

MAX_LINES = 6
"""Lines shown per finding. The HTML page has all."""
_LEGEND = "Row: speed of the workload relative to running alone. Column: its neighbour. oom: both do not fit in memory."
_MARKED = f"{MARKS['more']} loses significantly more than its neighbour, {MARKS['less']} less."


def series_view(measured: MeasurementSeries, width: int) -> RenderableType:
    """The table of pairs, then triples and splits, then the findings."""
    heading = Text(f"{one_line(measured.setting.gpu)}: {one_line(' · '.join(facts(measured)))}", style="bold")
    shown = speed_map(measured)
    if not shown.rows:
        return Group(heading, Text("no measurements", style="dim"))
    parts: list[RenderableType] = [heading, Text(), _square(shown, width), Text(), Text(_legend(shown), style="dim")]
    others = [run for run in measured.co_runs if len(run.workloads) != 2 or not run.is_unrestricted]
    if others:
        parts += [Text(), _others(others, width)]
    for found in findings(measured):
        parts += [Text(), *_finding_lines(found)]
    return Group(*parts)


def list_view(kept: Sequence[StoredSeries], skipped: Sequence[SkippedFile], width: int) -> RenderableType:
    """Series, newest first, and skipped files."""
    columns = (
        TableColumn("MEASURED"),
        TableColumn("GPU", max_width=40, min_width=12),
        TableColumn("DRIVER", from_width=80),
        TableColumn("SHARING"),
        TableColumn("MEMORY", right=True),
        TableColumn("WORKLOADS", right=True, from_width=70),
        TableColumn("RUNS", right=True, from_width=90),
        TableColumn("FILE", from_width=60, min_width=20),
    )
    rows = [_list_row(one) for one in reversed(kept)]
    notes = [Text(f"Skipped {one_line(one.path.name)}: {one_line(one.why)}", style="yellow") for one in skipped]
    shown = table(columns, rows, width) if rows else Text("no series measured yet", style="dim")
    return Group(shown, *notes)


def _square(shown: HeatMap, width: int) -> RenderableType:
    names = [one_line(name) for name in shown.rows]
    by_name = max(map(len, names)) + sum(max(6, len(name)) + GAP for name in names)
    if by_name <= width:
        rows, heads = names, names
    else:  # number rows and columns
        rows = [f"{number} {name}" for number, name in enumerate(names, 1)]
        heads = [str(number) for number in range(1, len(names) + 1)]
    columns = (TableColumn(""), *map(TableColumn, heads))
    cells = [(name, *map(_tile_text, tiles)) for name, tiles in zip(rows, shown.tiles, strict=True)]
    return table(columns, cells, width)


def _tile_text(tile: Tile) -> Text:
    text = tile.text + (MARKS[tile.mark] or " ")
    if tile.level is None:
        return Text(text, style="dim" if not tile.ran_out else "bold magenta")
    colour = shade("loss", tile.level)
    style = f"{as_hex(ink_on(colour))} on {as_hex(colour)}"
    return Text(text, style=f"bold {style}" if tile.is_twin else style)


def _legend(shown: HeatMap) -> str:
    return _LEGEND + (f" {_MARKED}" if any(tile.mark for row in shown.tiles for tile in row) else "")


def _others(runs: Sequence[CoRun], width: int) -> RenderableType:
    columns = (TableColumn("WORKLOADS", wraps=True), TableColumn("SMS"), TableColumn("SPEEDS"))
    return table(columns, [_other_row(run) for run in runs], width)


def _other_row(run: CoRun) -> tuple[str, ...]:
    parts = "all" if run.is_unrestricted else " / ".join(f"{milli / 10:g} %" for milli in run.sm_milli)
    return " + ".join(run.workloads), parts, " / ".join(f"{one.mean:.2f}" for one in run.ratios) or "oom"


def _finding_lines(found: Findings) -> list[Text]:
    lines = [Text(f"{found.summary}{':' if found.lines else '.'}")]
    lines += [Text(f"  {one_line(line)}") for line in found.lines[:MAX_LINES]]
    if len(found.lines) > MAX_LINES:
        lines.append(Text(f"  and {counted(len(found.lines) - MAX_LINES, 'other')}", style="dim"))
    return lines


def _list_row(one: StoredSeries) -> tuple[str, ...]:
    setting = one.measured.setting
    memory = "all" if setting.memory_bytes is None else show_bytes(setting.memory_bytes)
    return (
        stamp(one.measured.at_us / US_PER_S), setting.gpu, setting.driver, setting.sharing, memory,
        str(len(one.measured.solos)), str(len(one.measured.co_runs)), one.path.name,
    )  # fmt: skip
