"""Plots as plain data for plotly.js.

Colours are names (``series-0``, ``kind-2``, ``joined``) that the page maps for light or dark. Texts with external names
are escaped, because plotly.js interprets some HTML in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.units import US_PER_S
from gpusquad.sim.job_table import JobTable
from gpusquad.sim.outcome import Outcome, SimulationResult
from gpusquad.sim.report import series, text
from gpusquad.sim.report.gantt import Bars, Gantt

Figure = dict[str, Any]

SERIES_COLOURS = 6
KIND_COLOURS = 6
_DASHES = ("solid", "dot", "dash")
_TIME_TICKS = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    86400: "1 d",
    864000: "10 d",
    8640000: "100 d",
}
_PERCENT_TICKS = {"tickvals": [0, 25, 50, 75, 100], "ticktext": ["0 %", "25 %", "50 %", "75 %", "100 %"]}
_SIZE_CLASSES = ((1, "1 GPU"), (2, "2 GPUs"), (4, "3–4 GPUs"), (8, "5–8 GPUs"), (1 << 60, "more than 8 GPUs"))


class TimeAxis:
    """The time axis that all plots of a page share."""

    def __init__(self, tables: Sequence[JobTable]) -> None:
        self.zero_us = min(table.first_request_us for table in tables)
        self.end_us = max(table.last_us for table in tables)
        self.unit = text.axis_unit_for((self.end_us - self.zero_us) / US_PER_S)

    def of(self, at_us: NDArray | Sequence[float]) -> list[float]:
        """Position on the axis, with digits for a pixel at deep zoom."""
        return short((np.asarray(at_us, dtype=np.float64) - self.zero_us) / (self.unit.seconds * US_PER_S))

    def length(self, us: NDArray) -> list[float]:
        return short(us / (self.unit.seconds * US_PER_S))

    def axis(self) -> Figure:
        title = {"text": f"time since the first request ({self.unit.name})"}
        hover = {"hoverformat": ".2f", "unifiedhovertitle": {"text": "%{x:.2f} " + self.unit.name}}
        return {"title": title, "range": [0, self.of([self.end_us])[0]], "zeroline": False, **hover}

    def show(self, at_us: int) -> str:
        """An instant in the unit of the axis."""
        return text.duration((at_us - self.zero_us) / US_PER_S, self.unit)


def short(values: NDArray) -> list[float]:
    """Seven significant figures are enough for any screen and halve the file."""
    return [float(f"{value:.7g}") for value in values.tolist()]


def _safe(value: str) -> str:
    """Text for plotly.js, which knows the entities for <, > and &, but not for quotes."""
    return escape(value, quote=False)


def colour_of(index: int) -> str:
    return f"series-{index % SERIES_COLOURS}"


def queue_length(results: Sequence[SimulationResult], clock: TimeAxis) -> Figure:
    """Pending jobs over time."""
    traces = []
    for i, result in enumerate(results):
        at, queued = series.thin_steps(result.samples.at_us, result.samples.queued)
        traces.append(_line(result, i, clock.of(at), queued.tolist(), "%{y:,} waiting"))
    return {"data": traces, "layout": _over_time(clock, {"rangemode": "tozero", "tickformat": ",~d"})}


def utilisation(results: Sequence[SimulationResult], clock: TimeAxis) -> tuple[Figure, float]:
    """GPU capacity held over time, in percent, and the longest interval (s) that one point averages."""
    traces, stretch = [], 0.0
    for i, result in enumerate(results):
        whole = max(1, result.cluster.gpus)
        held, averaged = _percent(result, i, clock, result.samples.busy_milli, 1000 * whole, "%{y:.0f} % held")
        traces.append(held)
        if len(results) == 1:
            idle, _ = _percent(result, i, clock, result.samples.stranded, whole, "%{y:.0f} % idle while jobs wait")
            traces.append(idle)
            _stack(held, idle)
        stretch = max(stretch, averaged)
    axis = {"range": [0, 103], **_PERCENT_TICKS}
    return {"data": traces, "layout": _over_time(clock, axis)}, stretch / US_PER_S


def _percent(
    result: SimulationResult, index: int, clock: TimeAxis, values: Sequence[int], whole: int, hover: str
) -> tuple[Figure, float]:
    at, means, stretch = series.mean_steps(result.samples.at_us, values, clock.zero_us, clock.end_us)
    return _line(result, index, clock.of(at), short(100 * means / whole), hover), stretch


def _stack(held: Figure, idle: Figure) -> None:
    """A single result shows both: capacity held, and above it what is idle while jobs are pending."""
    held |= {"stackgroup": "cards", "name": "held", "fillcolor": "series-0-soft"}
    idle |= {"stackgroup": "cards", "name": "idle while jobs wait", "fillcolor": "series-1-soft"}
    idle["line"] = {**idle["line"], "color": "series-1", "width": 0.5}


def _line(result: SimulationResult, index: int, x: list[float], y: list[float], hover: str) -> Figure:
    dash = _DASHES[index // SERIES_COLOURS % len(_DASHES)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _safe(text.plain(result.label, 40)),
        "x": x,
        "y": y,
        "line": {"shape": "hv", "width": 1.6, "color": colour_of(index), "dash": dash},
        "hovertemplate": hover,
    }


def _over_time(clock: TimeAxis, y_axis: Figure) -> Figure:
    return {"xaxis": clock.axis(), "yaxis": {**y_axis, "fixedrange": True}, "hovermode": "x unified", "height": 270}


def distributions(results: Sequence[SimulationResult], tables: Sequence[JobTable]) -> dict[str, Figure]:
    """CDFs of wait, slowdown and JCT."""
    pick: dict[str, Callable[[JobTable], NDArray]] = {
        "wait": lambda table: table.wait_s[table.started],
        "slowdown": lambda table: table.slowdown[table.finished],
        "jct": lambda table: table.jct_s[table.finished],
    }
    return {name: _distribution(name, results, [get(table) for table in tables]) for name, get in pick.items()}


def _distribution(name: str, results: Sequence[SimulationResult], values: Sequence[NDArray]) -> Figure:
    is_time = name != "slowdown"
    traces = []
    for i, (result, of_result) in enumerate(zip(results, values, strict=True)):
        # A log axis has no 0: values below a second are drawn at one second (the page says so).
        x, y = series.cumulative(np.maximum(1.0, of_result))
        trace = _line(result, i, short(x), short(100 * y), "%{y:.0f} % of jobs: %{text} or less")
        trace["text"] = [text.duration(v) if is_time else text.number(v) for v in x.tolist()]
        traces.append(trace)
    top = max((float(of_result.max()) for of_result in values if len(of_result)), default=1.0)
    return {"data": traces, "layout": _log_layout(is_time, max(top, 10.0))}


def _log_layout(is_time: bool, top: float) -> Figure:
    axis: Figure = {"type": "log", "range": [0, float(np.log10(top)) * 1.02], "zeroline": False}
    if is_time:
        axis |= {"tickvals": list(_TIME_TICKS), "ticktext": list(_TIME_TICKS.values()), "tickangle": 0}
    else:
        axis |= {"dtick": 1, "tickformat": ",~r", "title": {"text": "times as long as the run"}}
    y_axis = {"range": [0, 102], **_PERCENT_TICKS, "fixedrange": True}
    return {"xaxis": axis, "yaxis": y_axis, "hovermode": "closest", "height": 270}


def cards_over_time(result: SimulationResult, table: JobTable, chart: Gantt, clock: TimeAxis) -> Figure:
    """The Gantt chart: a bar per attempt on a card, coloured by tenant, or by size if there is one tenant."""
    kinds, kind_of = _kinds(result, table, chart.bars)
    traces = [
        _bars(result, chart, chart.bars.pick(np.flatnonzero(kind_of == i)), clock, name, colour)
        for i, (name, colour) in enumerate(kinds)
    ]
    return {"data": [trace for trace in traces if trace["x"]], "layout": _gantt_layout(chart, clock)}


def _gantt_layout(chart: Gantt, clock: TimeAxis) -> Figure:
    rows = len(chart.cards)
    row_px = 22 if rows <= 16 else 16 if rows <= 40 else 12
    y_axis = {
        "range": [rows - 0.5, -0.5],
        "tickvals": list(range(rows)),
        "ticktext": [_safe(text.plain(name, 18)) for name in chart.cards],
        "showgrid": False,
        "zeroline": False,
        "fixedrange": rows <= 16,
        "tickfont": {"size": max(8, min(11, row_px - 3))},
    }
    legend = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    return {
        "xaxis": clock.axis(),
        "yaxis": y_axis,
        "barmode": "overlay",
        "hovermode": "closest",
        "height": 110 + rows * row_px,
        "showlegend": True,
        "legend": legend,
    }


def _kinds(result: SimulationResult, table: JobTable, bars: Bars) -> tuple[list[tuple[str, str]], NDArray]:
    """Names and colours of the kinds of bars, and the kind of each bar; the last kind is several jobs in one bar."""
    by_party = table.by == "tenant" and len(table.party_names) > 1
    names, of_outcome = _by_party(table) if by_party else _by_size(result.outcomes)
    ramp = "kind" if by_party else "size"
    kinds = [(name, "other" if name == "others" else f"{ramp}-{i}") for i, name in enumerate(names)]
    kind_of = np.append(of_outcome, len(kinds))[bars.outcome]  # -1 picks the last
    return [*kinds, ("several short jobs", "joined")], kind_of


def _by_party(table: JobTable) -> tuple[list[str], NDArray]:
    """The parties with the most GPU time; the others are combined."""
    gpu_us = np.bincount(table.party, weights=table.gpu_us, minlength=len(table.party_names))
    largest = np.argsort(-gpu_us, kind="stable")[:KIND_COLOURS]
    kind = np.full(len(table.party_names), len(largest), dtype=np.int64)
    kind[largest] = np.arange(len(largest))
    names = [text.party(table.party_names[i]) for i in largest]
    return [*names, "others"], kind[table.party]


def _by_size(outcomes: list[Outcome]) -> tuple[list[str], NDArray]:
    limits = [limit for limit, _ in _SIZE_CLASSES]
    gpus = np.array([outcome.job.gpus for outcome in outcomes], dtype=np.int64)
    return [name for _, name in _SIZE_CLASSES], np.searchsorted(limits, gpus)


def _bars(result: SimulationResult, chart: Gantt, bars: Bars, clock: TimeAxis, name: str, colour: str) -> Figure:
    lanes = chart.lanes[bars.card]
    height = 0.86 / lanes
    return {
        "type": "bar",
        "orientation": "h",
        "name": _safe(text.plain(name, 30)),
        "base": clock.of(bars.start_us),
        "x": clock.length(bars.end_us - bars.start_us),
        "y": short(bars.card - 0.43 + (bars.lane + 0.5) * height),
        "width": short(height),
        "marker": {"color": colour, "line": {"width": 0.5, "color": "surface"}},
        "hovertext": [_hover(result, bars, i, clock) for i in range(len(bars))],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _hover(result: SimulationResult, bars: Bars, i: int, clock: TimeAxis) -> str:
    start_us, end_us = int(bars.start_us[i]), int(bars.end_us[i])
    times = f"{clock.show(start_us)} → {clock.show(end_us)} ({text.duration((end_us - start_us) / US_PER_S)})"
    if bars.outcome[i] < 0:
        return f"{int(bars.attempts[i]):,} short jobs<br>{times}"
    outcome = result.outcomes[bars.outcome[i]]
    job = outcome.job
    who = " · ".join(text.plain(part, 40) for part in (job.name, job.tenant, job.user) if part)
    wait_s = None if outcome.wait_us is None else outcome.wait_us / US_PER_S
    parts = (f"<b>{_safe(text.plain(job.id, 40))}</b>", _safe(who), text.plural(job.gpus, "GPU"), times)
    return "<br>".join((*parts, f"waited {text.duration(wait_s)}"))
