"""A series as one image, for slides and papers. Drawn by matplotlib, which is imported only here."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from gpusquad.measure.charts.heatmap import MARKS, HeatMap, Tile, bandwidth_map, fit_map, memory_map, speed_map
from gpusquad.measure.charts.heatmap_html import facts
from gpusquad.measure.charts.shades import as_hex, ink_on, shade
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import MeasurementSeries

DOTS_PER_INCH = 160
_CELL_IN, _LABEL_IN, _TITLE_IN, _KEY_IN = 0.62, 0.085, 0.5, 0.55
"""Inches: a field, a letter of a name, a title, the key below a map."""
_INK, _MUTED, _HATCH = "#1a1d23", "#626a76", "#b4bac4"
_GAP = 0.04
"""Margin around a field, as a fraction of its width."""
_MAX_NAME_CHARS = 26


def write_png(measured: MeasurementSeries, path: Path) -> None:
    """Speed, memory, bandwidth and fit, two by two."""
    figure_class, _ = _matplotlib()
    maps = [speed_map(measured), memory_map(measured), bandwidth_map(measured), fit_map(measured)]
    width, height = _panel_inches(maps[1])
    figure = figure_class(figsize=(2 * width, 2 * height + _TITLE_IN), facecolor="white", layout="constrained")
    figure.suptitle(_title(measured), fontsize=12, color=_INK, fontweight="bold", parse_math=False)
    for axes, shown in zip(figure.subplots(2, 2).flat, maps, strict=True):
        _draw(axes, shown)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # a character that the font lacks is drawn as a box, which is visible enough
        figure.savefig(path, format="png", dpi=DOTS_PER_INCH)


def check_library() -> None:
    """Raises Invalid if matplotlib is not installed."""
    _matplotlib()


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Rectangle
    except ImportError as error:
        raise Invalid("png", "needs matplotlib, which is not installed", "pip install 'gpusquad[report]'") from error
    return Figure, Rectangle


def _title(measured: MeasurementSeries) -> str:
    return f"Interference on {measured.setting.gpu}: {' · '.join(facts(measured))}"


def _panel_inches(shown: HeatMap) -> tuple[float, float]:
    label_in = 0.3 + _LABEL_IN * max((len(_short(name)) for name in shown.columns), default=1)
    width = len(shown.columns) * _CELL_IN + label_in
    return max(4.6, width), max(3.2, len(shown.rows) * _CELL_IN * 0.8 + label_in + _TITLE_IN + _KEY_IN)


def _draw(axes: Any, shown: HeatMap) -> None:
    for row, tiles in enumerate(shown.tiles):
        for column, tile in enumerate(tiles):
            _draw_tile(axes, shown, tile, row, column)
    axes.set(xlim=(0, max(1, len(shown.columns))), ylim=(max(1, len(shown.rows)), 0))
    axes.set_title(shown.title, fontsize=10, color=_INK, loc="left", fontweight="bold")
    axes.set_xticks([at + 0.5 for at in range(len(shown.columns))], list(map(_short, shown.columns)), rotation=90)
    axes.set_yticks([at + 0.5 for at in range(len(shown.rows))], list(map(_short, shown.rows)))
    axes.tick_params(length=0, labelsize=8, labelcolor=_MUTED, top=True, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(_key(shown), fontsize=7.5, color=_MUTED, loc="left", parse_math=False)
    for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        label.set_parse_math(False)  # a name may contain dollar signs


def _draw_tile(axes: Any, shown: HeatMap, tile: Tile, row: int, column: int) -> None:
    _, rectangle = _matplotlib()
    colour = (255, 255, 255) if tile.level is None else shade(shown.scale, tile.level)
    look: dict[str, Any] = {"facecolor": as_hex(colour), "edgecolor": "none"}
    if tile.ran_out:
        look |= {"hatch": "////", "edgecolor": _HATCH, "linewidth": 0}
    corner, side = (column + _GAP, row + _GAP), 1 - 2 * _GAP
    axes.add_patch(rectangle(corner, side, side, **look))
    if tile.is_twin:
        axes.add_patch(rectangle(corner, side, side, fill=False, edgecolor=_INK, linewidth=1.6))
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.2} if tile.ran_out else None
    axes.text(column + 0.5, row + 0.5, tile.text, ha="center", va="center", fontsize=8, bbox=box, parse_math=False,
              color=as_hex(ink_on(colour)), fontweight="bold" if tile.is_twin else "normal")  # fmt: skip
    if tile.mark:
        axes.text(column + 0.93, row + 0.92, MARKS[tile.mark], ha="right", va="bottom", fontsize=5,
                  color=as_hex(ink_on(colour)))  # fmt: skip


def _key(shown: HeatMap) -> str:
    """The colour key as text, because the values are in the fields."""
    parts = [f"pale: {shown.ends[0]}; strong: {shown.ends[1]}"] if shown.ends[0] else []
    parts.append("framed: beside its twin")
    tiles = [tile for row in shown.tiles for tile in row]
    if any(tile.ran_out for tile in tiles):
        parts.append("hatched: does not fit in memory")
    if any(tile.mark for tile in tiles):
        parts.append(f"{MARKS['more']} loses significantly more than its neighbour, {MARKS['less']} less")
    return "\n".join([" · ".join(parts[:2]), *parts[2:]])


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 1] + "…"
