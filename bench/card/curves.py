"""Attainment over time as one SVG file without a library, with a panel for each condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDE, HIGH, EDGE, TOP, COLUMNS = 460, 200, 44, 34, 2
COLOURS = ("#1565c0", "#2e7d32", "#ef6c00", "#8e24aa")
MAX = 1.5
"""Values above are drawn at the edge."""
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """One condition: a line for each tenant, and instants that are marked."""

    title: str
    length_s: float
    lines: Mapping[str, Points]
    marks: Mapping[float, str]


def svg(panels: Sequence[Panel]) -> str:
    rows = -(-len(panels) // COLUMNS)
    drawn = "".join(
        f'<g transform="translate({(index % COLUMNS) * WIDE},{TOP + (index // COLUMNS) * HIGH})">{_panel(one)}</g>'
        for index, one in enumerate(panels)
    )
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    legend = "".join(
        f'<text x="{EDGE + 110 * index}" y="20" fill="{COLOURS[index % len(COLOURS)]}">— {escape(name)}</text>'
        for index, name in enumerate(names)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDE}" height="{TOP + rows * HIGH}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>{legend}{drawn}</svg>'
    )


def _panel(one: Panel) -> str:
    def x(at_s: float) -> float:
        return EDGE + at_s / one.length_s * (WIDE - EDGE - 14)

    def y(value: float) -> float:
        return HIGH - 30 - min(max(value, 0.0), MAX) / MAX * (HIGH - 56)

    lines = "".join(
        f'<path d="{_path([(x(at_s), y(value)) for at_s, value in points])}" fill="none" '
        f'stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="1.4"/>'
        for index, points in enumerate(one.lines.values())
        if points
    )
    ticks = "".join(
        f'<text x="{EDGE - 5}" y="{y(value) + 4:.0f}" text-anchor="end">{100 * value:.0f} %</text>'
        for value in (0.0, 0.5, 1.0)
    )
    times = "".join(
        f'<text x="{x(at_s):.0f}" y="{HIGH - 14}" text-anchor="middle">{at_s:.0f} s</text>'
        for at_s in (0.0, one.length_s / 2, one.length_s)
    )
    whole = f'<path d="M{EDGE} {y(1.0):.1f}H{WIDE - 14}" stroke="#bdbdbd" stroke-dasharray="3 3"/>'
    marks = "".join(
        f'<path d="M{x(at_s):.1f} 24V{HIGH - 30}" stroke="#757575" stroke-dasharray="2 3"/>'
        f'<text x="{x(at_s) + 3:.1f}" y="{HIGH - 35}" fill="#757575">{escape(words)}</text>'
        for at_s, words in one.marks.items()
    )
    frame = f'<path d="M{EDGE} 24V{HIGH - 30}H{WIDE - 14}" fill="none" stroke="#9e9e9e"/>'
    title = f'<text x="{EDGE}" y="16" font-weight="bold">{escape(one.title)}</text>'
    return f"{title}{frame}{whole}{ticks}{times}{marks}{lines}"


def _path(points: Points) -> str:
    return "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
