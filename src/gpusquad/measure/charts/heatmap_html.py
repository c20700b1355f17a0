"""A series as one HTML page: it loads nothing, runs no script, and has light, dark and print styles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib import resources
from string import Template
from time import gmtime, strftime

from gpusquad.measure.analysis.summary_text import Findings, findings
from gpusquad.measure.charts.heatmap import MARKS, HeatMap, Tile, heat_maps
from gpusquad.measure.charts.shades import SCALES, Scale, Theme, as_hex, ink_on, shade
from gpusquad.model.interference import CoRun, MeasurementSeries, SoloMeasurement
from gpusquad.model.units import US_PER_S, show_bytes

STEPS = 50
"""Number of shades of a scale. Shades are CSS classes, because their colours differ between light and dark."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Interference on $card – gpusquad</title>
<style>
$style
</style>
</head>
<body>
<header><p class="brand">gpusquad measure</p><h1>Interference on $card</h1><p class="facts">$facts</p></header>
<main>
$sections
</main>
<footer><p>Intervals are of 95 %. “Significant” means: a chance below 5 % of even one false alarm in all that is tested
together (Student’s t, corrected by Holm’s procedure). Made by gpusquad$version; nothing is loaded from
anywhere.</p></footer>
</body>
</html>
"""


def render(measured: MeasurementSeries, version: str = "") -> str:
    """The page as text. ``version``: of gpusquad, for the footer."""
    speed, *others = (_section(one.title, one.note, _map(one)) for one in heat_maps(measured))
    tested = "".join(map(_found, findings(measured)))
    found = [_section("Significant differences", "Points are hundredths of the speed alone.", tested)] if tested else []
    return Template(_PAGE).substitute(
        card=escape(measured.setting.gpu),
        style=_style(),
        facts=escape(" · ".join(facts(measured))),
        sections="\n".join([speed, *found, *others, *_lists(measured)]),
        version=escape(f" {version}" if version else ""),
    )


def facts(measured: MeasurementSeries) -> list[str]:
    """The conditions of the measurement."""
    setting, repeats = measured.setting, {one.repeats for run in measured.co_runs for one in run.ratios}
    detail = [f"driver {setting.driver}", setting.sharing]
    detail.append(f"{show_bytes(setting.memory_bytes)} in all" if setting.memory_bytes else "all of its memory")
    if repeats:
        low, high = min(repeats), max(repeats)
        detail.append(f"{low} repeats" if low == high else f"{low} to {high} repeats")
    return [*detail, strftime("%Y-%m-%d %H:%M UTC", gmtime(measured.at_us / US_PER_S))]


def _section(title: str, note: str, body: str) -> str:
    return f'<section><h2>{escape(title)}</h2><p class="note">{escape(note)}</p>{body}</section>'


def _map(shown: HeatMap) -> str:
    heads = "".join(
        f"<th scope=col><span>{escape(name)}</span></th>{_gap(shown, i)}" for i, name in enumerate(shown.columns)
    )
    rows = "".join(_row(shown, name, tiles) for name, tiles in zip(shown.rows, shown.tiles, strict=True))
    table = f'<table class="map"><thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div class="wide">{table}</div>{_key(shown)}'


def _row(shown: HeatMap, name: str, tiles: Sequence[Tile]) -> str:
    cells = "".join(_cell(shown, tile, column) for column, tile in enumerate(tiles))
    return f"<tr><th scope=row>{escape(name)}</th>{cells}</tr>"


def _cell(shown: HeatMap, tile: Tile, column: int) -> str:
    classes = [_colour_class(shown.scale, tile.level)] if tile.level is not None else []
    classes += [name for name, holds in (("out", tile.ran_out), ("twin", tile.is_twin)) if holds]
    classes += ["none"] if tile.level is None and not tile.ran_out else []
    mark = f"<i>{MARKS[tile.mark]}</i>" if tile.mark else ""
    inside = f"<span>{escape(tile.text)}</span>{mark}"
    return f'<td class="{" ".join(classes)}" title="{escape(tile.detail)}">{inside}</td>{_gap(shown, column)}'


def _gap(shown: HeatMap, column: int) -> str:
    """A gap after the column that is not a neighbour."""
    return '<td class="gap"></td>' if column == 0 and len(shown.columns) > len(shown.rows) else ""


def _key(shown: HeatMap) -> str:
    tiles = [tile for row in shown.tiles for tile in row]
    parts = []
    if shown.ends[0]:
        steps = "".join(f'<b class="{_colour_class(shown.scale, step / 12)}"></b>' for step in range(13))
        parts.append(f'{escape(shown.ends[0])} <span class="bar">{steps}</span> {escape(shown.ends[1])}')
    if any(tile.is_twin for tile in tiles):
        parts.append('<i class="box twin"></i> beside its twin')
    if any(tile.ran_out for tile in tiles):
        parts.append('<i class="box out"></i> does not fit in memory')
    if any(tile.mark for tile in tiles):
        parts.append(f"{MARKS['more']} loses significantly more than its neighbour, {MARKS['less']} less")
    return '<p class="key">' + "".join(f"<span>{part}</span>" for part in parts) + "</p>"


def _found(found: Findings) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in found.lines)
    return f"<h3>{escape(found.summary)}</h3>" + (f'<ul class="found">{items}</ul>' if items else "")


def _lists(measured: MeasurementSeries) -> Iterator[str]:
    if measured.solos:
        heads = (
            "Workload",
            "Steps/s",
            "95 %",
            "Kernel running",
            "Memory busy",
            "Memory",
            "Power",
            "By part of the SMs",
        )
        yield _section("Alone", "Each on the whole card.", _list(heads, map(_solo_row, measured.solos)))
    splits = [run for run in measured.co_runs if len(run.workloads) == 2 and not run.is_unrestricted]
    if splits:
        note = "Pairs with a fixed part of the SMs each. Speeds are relative to those alone on the whole card."
        yield _section("Splits", note, _list(("Pair", "Parts", "Speeds", "95 %"), map(_run_row, splits)))
    larger = [run for run in measured.co_runs if len(run.workloads) > 2]
    if larger:
        note = "Speeds in the order of the names."
        yield _section("Three together", note, _list(("Workloads", "Parts", "Speeds", "95 %"), map(_run_row, larger)))


def _list(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table class="list"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _solo_row(solo: SoloMeasurement) -> tuple[str, ...]:
    speed = solo.steps_per_s
    parts = ", ".join(f"{milli / 10:g} %: {ratio:.2f}" for milli, ratio in solo.by_sm if len(solo.by_sm) > 1)
    return (
        solo.workload, f"{speed.mean:.4g}", f"{speed.low:.4g} to {speed.high:.4g}", f"{solo.utilisation_ratio:.0%}",
        f"{solo.bandwidth_ratio:.0%}", show_bytes(solo.memory_bytes), f"{solo.power_w:.0f} W", parts or "–",
    )  # fmt: skip


def _run_row(run: CoRun) -> tuple[str, ...]:
    parts = "all" if run.is_unrestricted else " / ".join(f"{milli / 10:g} %" for milli in run.sm_milli)
    speeds = " / ".join(f"{one.mean:.2f}" for one in run.ratios) or "out of memory"
    sure = " / ".join(f"{one.low:.2f}–{one.high:.2f}" for one in run.ratios)
    return " beside ".join(run.workloads), parts, speeds, sure


def _colour_class(scale: Scale, level: float) -> str:
    return f"{scale}-{round(min(1.0, max(0.0, level)) * STEPS)}"


def _style() -> str:
    css = resources.files("gpusquad.measure.charts").joinpath("heatmap.css").read_text(encoding="utf-8")
    dark = _shades("dark")
    return f"{css}{_shades('light')}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}"


def _shades(theme: Theme) -> str:
    return "\n".join(
        f".{scale}-{step} {{ background: {as_hex(colour)}; color: {as_hex(ink_on(colour))}; }}"
        for scale in SCALES
        for step in range(STEPS + 1)
        for colour in [shade(scale, step / STEPS, theme)]
    )
