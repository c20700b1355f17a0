"""Predicted and actual remaining time as one SVG file without a library."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from bench.progress_jobs.replay import BASELINES, OURS, Replay

WIDE, HIGH, EDGE, COLUMNS = 460, 260, 46, 2
COLOURS = {OURS: "#1565c0", "elapsed": "#c62828", "window": "#2e7d32", "smoothed": "#ef6c00"}
TRUE = "#212121"


def svg(replays: list[Replay]) -> str:
    rows = -(-len(replays) // COLUMNS)
    panels = "".join(
        f'<g transform="translate({(index % COLUMNS) * WIDE},{30 + (index // COLUMNS) * HIGH})">{_panel(one)}</g>'
        for index, one in enumerate(replays)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{COLUMNS * WIDE}" height="{30 + rows * HIGH}" '
        f'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        f"{_legend()}{panels}</svg>"
    )


def _panel(one: Replay) -> str:
    most_s = 1.6 * one.run_s

    def x(at_s: float) -> float:
        return EDGE + at_s / one.run_s * (WIDE - EDGE - 12)

    def y(left_s: float) -> float:
        return HIGH - 34 - min(left_s, most_s) / most_s * (HIGH - 62)

    told = [m for m in one.moments if m.low_s is not None and m.high_s is not None]
    band = [(x(m.at_s), y(m.low_s or 0)) for m in told] + [(x(m.at_s), y(m.high_s or 0)) for m in reversed(told)]
    lines = [_line(((x(m.at_s), y(m.left_s)) for m in one.moments), TRUE, 1.5)]
    for way in (*BASELINES, OURS):
        points = [(x(m.at_s), y(said)) for m in one.moments if (said := m.said_s[way]) is not None]
        lines.append(_line(points, COLOURS[way], 2.0 if way == OURS else 1.0))
    ticks = "".join(
        f'<text x="{x(part * one.run_s):.0f}" y="{HIGH - 18}" text-anchor="middle">{part * one.run_s:.0f} s</text>'
        f'<text x="{EDGE - 5}" y="{y(part * one.run_s) + 4:.0f}" text-anchor="end">{part * one.run_s:.0f} s</text>'
        for part in (0, 0.5, 1.0)
    )
    frame = f'<path d="M{EDGE} 24V{HIGH - 34}H{WIDE - 12}" fill="none" stroke="#9e9e9e"/>'
    shade = f'<path d="{_path(band)}Z" fill="{COLOURS[OURS]}" opacity="0.15"/>' if band else ""
    return f'<text x="{EDGE}" y="16" font-weight="bold">{escape(one.name)}</text>{frame}{ticks}{shade}{"".join(lines)}'


def _legend() -> str:
    words = {"true": TRUE, f"{OURS} (with P10 to P90)": COLOURS[OURS], **{way: COLOURS[way] for way in BASELINES}}
    return "".join(
        f'<text x="{EDGE + 170 * index}" y="18" fill="{colour}">— {escape(word)}</text>'
        for index, (word, colour) in enumerate(words.items())
    )


def _line(points: Iterable[tuple[float, float]], colour: str, width: float) -> str:
    return f'<path d="{_path(points)}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def _path(points: Iterable[tuple[float, float]]) -> str:
    return "".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
