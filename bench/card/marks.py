"""Figures and tables as text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan

from bench.card.stats import Ratio


def number(value: float | None) -> str:
    """Three significant digits; a dash for unknown values."""
    if value is None or isnan(value):
        return "–"
    if not isfinite(value):
        return "∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def interval(found: Ratio) -> str:
    if found.blocks == 0:
        return "–"
    if not found.is_sure:
        return f"{found.value:.3f} (too few blocks)"
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def markdown(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
