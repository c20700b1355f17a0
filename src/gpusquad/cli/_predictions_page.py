"""Plots of predictions as one self-contained HTML file, styled like the simulation report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import log10
from pathlib import Path
from string import Template
from typing import Any

import gpusquad
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._times import span, stamp
from gpusquad.cli._views.predictions import bias, percent
from gpusquad.sim.report import pieces

Plain = Mapping[str, Any]
Figure = dict[str, Any]
COLOURS = 6
_TIME_TICKS = {1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 36000: "10 h", 360000: "100 h"}
_MIN_S = 0.1
"""Lower bound, because a log axis cannot show 0."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="$policy">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Predicted run times – gpusquad</title>
<style>
$style
</style>
</head>
<body>
<header><p class="brand">gpusquad predictions</p><h1>Predicted run times</h1><p class="facts">$facts</p>
<ul class="legend">$legend</ul></header>
<main>
<section><h2>Calibration</h2>
<p class="note">Horizontal: the fraction of runs that should end by the predicted value. Vertical: the fraction that
did. On the line the predictions are calibrated; below it runs take longer than predicted.</p>
<div class="plot" data-figure="calibration"></div></section>
<section><h2>Predicted and actual</h2>
<p class="note">$points</p>
<div class="plot" data-figure="truth"></div></section>
<section><h2>By source</h2>$sources</section>
<section><h2>By tenant</h2>$tenants</section>
</main>
<footer>
<dl>
<dt>Off</dt><dd>Median distance from the predicted median, as a percentage of the actual run time.</dd>
<dt>Pinball loss</dt><dd>level · (actual − value) if the run took longer, (1 − level) · (value − actual) otherwise; the
mean over runs and levels. Lower is better.</dd>
<dt>Bias</dt><dd>How much longer the median run took than predicted.</dd>
<dt>Cut</dt><dd>Runs that were stopped, preempted or lost. Their full run time is unknown, so they are not scored.</dd>
</dl>
<p class="muted">Created by gpusquad $version. Plots by plotly.js (MIT licence), included in this file. Nothing is
loaded from the network.</p>
</footer>
<script type="application/json" id="figures">$figures</script>
<script>$plotly</script>
<script>$script</script>
</body>
</html>
"""


def write_page(answer: Plain, path: Path, tenant: str | None = None) -> None:
    """Write the page. It needs no network and runs only its own scripts."""
    path.write_text(render(answer, tenant), encoding="utf-8", errors="backslashreplace")


def render(answer: Plain, tenant: str | None = None) -> str:
    """The page as text."""
    plotly_js, script = pieces.plotly_js("html"), pieces.packaged("page.js")
    sources = [row["key"] for row in answer["sources"] if row["count"]]
    figures = {"calibration": calibration(answer, sources), "truth": truth(answer, sources)}
    of_tenant = f" of tenant {one_line(tenant)}" if tenant else ""
    return Template(_PAGE).substitute(
        policy=pieces.security_policy(plotly_js, script),
        style=pieces.packaged("page.css"),
        facts=escape(f"{counted(answer['count'], 'run')}{of_tenant} since {stamp(answer['since_s'])}"),
        legend="".join(_chip(index, source) for index, source in enumerate(sources)),
        points=f"{counted(len(answer['points']), 'run')}. On the line the predicted median was exact.",
        sources=_table(answer["sources"]),
        tenants=_table(answer["tenants"]),
        version=escape(gpusquad.__version__),
        figures=pieces.as_script_data(figures),
        plotly=plotly_js,
        script=script,
    )


def calibration(answer: Plain, sources: Sequence[str]) -> Figure:
    """Nominal level against observed fraction, one line per source."""
    traces: list[Figure] = [_diagonal([0, 100])]
    for index, source in enumerate(sources):
        own = [point for point in answer["calibration"] if point["source"] == source]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": _safe(source),
            "x": [100 * point["level"] for point in own], "y": [100 * point["observed"] for point in own],
            "line": {"color": colour_of(index), "width": 1.6}, "marker": {"color": colour_of(index), "size": 6},
            "hovertemplate": "%{x:.0f} % predicted, %{y:.0f} % observed",
        })  # fmt: skip
    axis = {"range": [0, 102], "ticksuffix": " %", "zeroline": False}
    return {"data": traces, "layout": {"xaxis": axis | {"title": {"text": "level"}}, "yaxis": axis,
                                       "hovermode": "closest", "height": 420}}  # fmt: skip


def truth(answer: Plain, sources: Sequence[str]) -> Figure:
    """Predicted median and actual run time of each run."""
    points = answer["points"]
    ends = [max(_MIN_S, s) for point in points for s in (point["predicted_s"], point["truth_s"])]
    low, high = (min(ends), max(ends)) if ends else (1.0, 3600.0)
    traces: list[Figure] = [_diagonal([low, high])]
    for index, source in enumerate(sources):
        own = [point for point in points if point["source"] == source]
        traces.append({
            "type": "scatter", "mode": "markers", "name": _safe(source),
            "x": [_short(point["predicted_s"]) for point in own], "y": [_short(point["truth_s"]) for point in own],
            "text": [f"predicted {span(point['predicted_s'])}, took {span(point['truth_s'])}" for point in own],
            "marker": {"color": colour_of(index), "size": 5, "opacity": 0.55}, "hovertemplate": "%{text}",
        })  # fmt: skip
    axis = {"type": "log", "range": [log10(low) - 0.1, log10(high) + 0.1], "tickvals": list(_TIME_TICKS),
            "ticktext": list(_TIME_TICKS.values()), "zeroline": False}  # fmt: skip
    return {"data": traces, "layout": {"xaxis": axis | {"title": {"text": "predicted"}},
                                       "yaxis": axis | {"title": {"text": "actual"}}, "hovermode": "closest",
                                       "height": 480}}  # fmt: skip


def colour_of(index: int) -> str:
    """Name of a colour, which the page looks up for its light or dark theme."""
    return f"series-{index % COLOURS}"


def _diagonal(ends: Sequence[float]) -> Figure:
    line = {"color": "other", "width": 1, "dash": "dot"}
    return {"type": "scatter", "mode": "lines", "x": list(ends), "y": list(ends), "line": line, "hoverinfo": "skip"}


def _short(seconds: float) -> float:
    """Rounded to five digits, enough for any screen."""
    return float(f"{max(_MIN_S, seconds):.5g}")


def _chip(index: int, name: str) -> str:
    return f'<li><i class="swatch {colour_of(index)}"></i><b>{escape(one_line(name))}</b></li>'


def _table(rows: Iterable[Plain]) -> str:
    heads = ("", "Runs", "Cut", "Off", "Mean error", "By P50", "By P90", "By P99", "Pinball loss", "Bias")
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(_row(row) for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _row(row: Plain) -> str:
    cells = (
        f"{row['count']:,}", f"{row['cut']:,}", percent(row["median_ratio"]), _span(row["mean_error_s"]),
        percent(row["within_p50"]), percent(row["within_p90"]), percent(row["within_p99"]), _span(row["pinball_s"]),
        bias(row["bias"]),
    )  # fmt: skip
    name = f'<td class="words">{escape(one_line(row["key"]))}</td>'
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _span(seconds: float | None) -> str:
    return "–" if seconds is None else span(seconds)


def _safe(text: str) -> str:
    """Escaped for plotly.js, which interprets some HTML in texts."""
    return escape(one_line(text), quote=False)
