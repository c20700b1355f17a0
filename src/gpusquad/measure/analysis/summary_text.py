"""The test results as text."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.measure.analysis.stats import Difference, asymmetries, diagonals
from gpusquad.model.interference import MeasurementSeries
from gpusquad.model.units import show_count


@dataclass(frozen=True, slots=True)
class Findings:
    """A question, how often the answer was yes, and a line for each of those, largest difference first."""

    summary: str
    lines: tuple[str, ...] = ()


def findings(measured: MeasurementSeries) -> list[Findings]:
    """Empty: no pair has enough repeats for a test."""
    return [found for found in (lopsided_pairs(measured), odd_twins(measured)) if found is not None]


def lopsided_pairs(measured: MeasurementSeries) -> Findings | None:
    """Pairs of which one loses more than the other."""
    tested = asymmetries(measured)
    found = [one for one in tested if one.loss.is_significant]
    lines = []
    for one in sorted(found, key=lambda one: -abs(one.loss.mean)):
        winner = one.second if one.loser == one.first else one.first
        lines.append(f"{one.loser} loses {_points(one.loss)} more than {winner} ({_sure(one.loss)})")
    summary = f"In {len(found)} of {show_count(len(tested), 'pair')} one loses more than the other"
    return Findings(summary, tuple(lines)) if tested else None


def odd_twins(measured: MeasurementSeries) -> Findings | None:
    """Workloads that a copy of itself slows down more or less than the average of other neighbours."""
    tested = diagonals(measured)
    found = [one for one in tested if one.loss.is_significant]
    lines = []
    for one in sorted(found, key=lambda one: -abs(one.loss.mean)):
        more = "more" if one.loss.mean > 0 else "less"
        beside = f"beside its twin than beside the mean of {show_count(one.others, 'other')}"
        lines.append(f"{one.workload} loses {_points(one.loss)} {more} {beside} ({_sure(one.loss)})")
    workloads = show_count(len(tested), "workload")
    summary = f"Beside their twin, {len(found)} of {workloads} lose more or less than beside others"
    return Findings(summary, tuple(lines)) if tested else None


def p_text(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def _points(found: Difference) -> str:
    return f"{100 * abs(found.mean):.1f} points"


def _sure(found: Difference) -> str:
    low, high = sorted((abs(found.low), abs(found.high)))
    return f"{100 * low:.1f} to {100 * high:.1f}, {p_text(found.adjusted_p)}"
