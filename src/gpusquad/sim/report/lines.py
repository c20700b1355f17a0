"""Rows of every comparison, in the terminal and in HTML: metric, unit, and which direction is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpusquad.sim.metrics import Distribution, Summary
from gpusquad.sim.report import text

Value = float | None
Kind = Literal["time", "ratio", "number", "count"]


@dataclass(frozen=True, slots=True)
class Line:
    """One metric."""

    group: str
    label: str
    kind: Kind
    better: Literal["low", "high", ""]
    get: Callable[[Summary], Value]
    headline: bool = False
    dull: Value = None
    """Left out if all results have this value (``None`` is always left out)."""


@dataclass(frozen=True, slots=True)
class ReportCell:
    """One value, ready to show."""

    text: str
    best: bool
    change: str
    """Relative to the first result, for example ``−12 %``."""


def lines(summaries: Sequence[Summary]) -> list[Line]:
    """Rows that have values in these results."""
    return [line for line in (*_end_lines(summaries), *_LINES) if _says_something(line, summaries)]


def cells(line: Line, summaries: Sequence[Summary]) -> list[ReportCell]:
    """Values of a row side by side: one unit for all, the best marked if they differ."""
    values = [line.get(summary) for summary in summaries]
    texts = _texts(line.kind, values)
    best = _best_text(line, values, texts)
    changes = ["", *(_change(line, values[0], value) for value in values[1:])]
    return [ReportCell(shown, shown == best, change) for shown, change in zip(texts, changes, strict=True)]


def _says_something(line: Line, summaries: Sequence[Summary]) -> bool:
    return any(line.get(summary) not in (None, line.dull) for summary in summaries)


def _texts(kind: Kind, values: Sequence[Value]) -> list[str]:
    if kind == "time":
        unit = text.unit_for(max((abs(value) for value in values if value is not None), default=0.0))
        return [text.duration(value, unit) for value in values]
    show = {"ratio": text.ratio, "number": text.number, "count": text.count}[kind]
    return [show(value) for value in values]


def _best_text(line: Line, values: Sequence[Value], texts: Sequence[str]) -> str | None:
    """Values are compared as shown, so that an invisible difference does not mark a best result."""
    known = [(value, shown) for value, shown in zip(values, texts, strict=True) if value is not None]
    if not line.better or len({shown for _, shown in known}) < 2:
        return None
    return (min if line.better == "low" else max)(known, key=lambda pair: pair[0])[1]


def _change(line: Line, first: Value, value: Value) -> str:
    if not line.better or not first or value is None:
        return ""
    if line.kind == "ratio":
        points = 100 * (value - first)
        return _signed(points, 1, "pt") if abs(points) >= 0.05 else ""
    percent = 100 * (value / first - 1)
    if abs(percent) < 0.5:
        return ""
    return _signed(percent, 0, "%") if percent < 1000 else f"×{value / first:,.0f}"


def _signed(value: float, digits: int, unit: str) -> str:
    return f"{value:+.{digits}f} {unit}".replace("-", "−")


def _end_lines(summaries: Sequence[Summary]) -> list[Line]:
    known = ("succeeded", "failed", "timed_out", "refused", "unfinished")
    return [Line("Jobs", "Jobs", "count", "", lambda s: s.jobs)] + [
        Line("Jobs", end.replace("_", " ").capitalize(), "count", "", lambda s, e=end: s.ends.get(e, 0), dull=0)
        for end in known
    ]


def _spread_lines(group: str, name: str, kind: Kind, get: Callable[[Summary], Distribution]) -> list[Line]:
    return [
        Line(group, f"{name}, mean", kind, "low", lambda s: get(s).mean, headline=True),
        Line(group, f"{name}, median", kind, "low", lambda s: get(s).median),
        Line(group, f"{name}, p90", kind, "low", lambda s: get(s).p90),
        Line(group, f"{name}, p99", kind, "low", lambda s: get(s).p99),
        Line(group, f"{name}, longest" if kind == "time" else f"{name}, largest", kind, "low", lambda s: get(s).max),
    ]


_LINES: tuple[Line, ...] = (
    *_spread_lines("Completion", "JCT", "time", lambda s: s.jct_s),
    *_spread_lines("Wait", "Wait", "time", lambda s: s.wait_s),
    *_spread_lines("Bounded slowdown", "Slowdown", "number", lambda s: s.slowdown),
    Line("Cluster", "Makespan", "time", "low", lambda s: s.makespan_s, headline=True),
    Line("Cluster", "GPU utilisation", "ratio", "high", lambda s: s.utilisation_ratio, headline=True),
    Line("Cluster", "Idle while jobs wait", "ratio", "low", lambda s: s.fragmentation_ratio, headline=True),
    Line("Cluster", "GPU hours held", "number", "", lambda s: s.gpu_hours),
    Line("Cluster", "Restarts", "count", "low", lambda s: s.restarts, dull=0),
    Line("Cluster", "GPU hours lost", "number", "low", lambda s: s.lost_gpu_hours, dull=0),
    Line("Fairness", "Jain's index of slowdown", "number", "high", lambda s: s.fairness.jain, headline=True),
    Line("Fairness", "Finish-time fairness, mean", "number", "low", lambda s: s.fairness.rho.mean),
    Line("Fairness", "Finish-time fairness, p99", "number", "low", lambda s: s.fairness.rho.p99),
    Line("Fairness", "Jobs worse off", "ratio", "low", lambda s: s.fairness.worse_off_ratio),
    Line("Reservations", "Jobs with a reservation", "count", "", lambda s: s.promises.promised, dull=0),
    Line("Reservations", "Reservations broken", "count", "low", lambda s: _if_any(s, s.promises.broken), headline=True),
    # The mean covers broken reservations only, so results with few bad ones and many mild ones are not ranked.
    Line("Reservations", "Broken: late by, mean", "time", "", lambda s: s.promises.late_mean_s),
    Line(
        "Reservations",
        "Broken: late by, longest",
        "time",
        "low",
        lambda s: _if_any(s, s.promises.late_max_s or 0.0),
        dull=0,
    ),
    Line("Reservations", "Reservations moved later", "count", "low", lambda s: s.promises.moved, dull=0),
    Line("Reservations", "Head delay, mean", "time", "low", lambda s: s.promises.head_delay_mean_s),
    Line("Reservations", "Head delay, longest", "time", "low", lambda s: s.promises.head_delay_max_s),
    Line("Deadlines", "Jobs with a deadline", "count", "", lambda s: s.deadlines.jobs, dull=0),
    Line("Deadlines", "Deadlines met", "ratio", "high", lambda s: s.deadlines.attainment_ratio, headline=True),
    Line("Simulator", "Decision cycles", "count", "", lambda s: s.cycles, dull=0),
    Line("Simulator", "Wall time", "time", "", lambda s: s.wall_s, dull=0),
    Line("Simulator", "Trace lines left out", "count", "", lambda s: s.skipped_lines, dull=0),
)


def _if_any(summary: Summary, value: float) -> Value:
    return value if summary.promises.promised else None
