"""Figures and plots of a bench as files under ``out/``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench._logs import most_jobs
from bench._play import tell
from bench.data import ROOT

OUT = ROOT / "out"
COLOURS = ("#1565c0", "#c62828", "#2e7d32", "#ef6c00", "#6a1b9a", "#00838f", "#5d4037")


def keep(name: str, figures: Mapping[str, Any] | Sequence[Any]) -> Path:
    """Write figures as JSON, for more detail than the scoreboard shows."""
    path = _file(name, "json")
    path.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    tell(f"figures: {path}")
    return path


def draw(name: str, title: str, panels: Sequence[Mapping[str, Any]], columns: int = 2) -> Path | None:
    """One HTML file with everything in it. A panel has ``title``, ``x``, ``y`` (the axes' words) and ``lines``: name ->
    points (x, y), and may have ``levels``: name -> a height that is drawn right across. None without plotly."""
    try:
        from plotly import graph_objects
        from plotly.subplots import make_subplots
    except ImportError:
        tell("no plots: pip install 'gpusquad[report]'")
        return None
    rows = -(-len(panels) // columns)
    figure = make_subplots(rows, columns, subplot_titles=[panel["title"] for panel in panels])
    colours = _colours(panels)
    shown: set[str] = set()
    for index, panel in enumerate(panels):
        row, col = index // columns + 1, index % columns + 1
        for line, points in _with_levels(panel).items():
            figure.add_trace(
                graph_objects.Scatter(
                    x=[x for x, _ in points], y=[y for _, y in points], name=line, legendgroup=line,
                    showlegend=line not in shown, mode="lines" if line in panel.get("levels", {}) else "lines+markers",
                    line={"color": colours[line], "dash": "dash" if line in panel.get("levels", {}) else "solid"},
                ),
                row=row, col=col,
            )  # fmt: skip
            shown.add(line)
        figure.update_xaxes(title_text=panel["x"], row=row, col=col)
        figure.update_yaxes(title_text=panel["y"], rangemode="tozero", row=row, col=col)
    figure.update_layout(title=title, height=120 + 340 * rows, template="plotly_white")
    path = _file(name, "html")
    figure.write_html(path)
    tell(f"plots: {path}")
    return path


def _file(name: str, kind: str) -> Path:
    """Suffix of file names, so that figures of the first jobs are never mistaken for those of the whole log."""
    OUT.mkdir(parents=True, exist_ok=True)
    limit = most_jobs()
    return OUT / (f"{name}-first-{limit}-jobs.{kind}" if limit else f"{name}.{kind}")


def _with_levels(panel: Mapping[str, Any]) -> dict[str, list[tuple[Any, float]]]:
    lines = {name: list(points) for name, points in panel["lines"].items()}
    across = sorted({x for points in lines.values() for x, _ in points})
    for name, height in panel.get("levels", {}).items():
        lines[name] = [(across[0], height), (across[-1], height)]
    return lines


def _colours(panels: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    names = dict.fromkeys(name for panel in panels for name in (*panel["lines"], *panel.get("levels", {})))
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}
