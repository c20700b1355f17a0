"""Accuracy of predicted run times over time, by tenant and source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

from gpusquad.model.units import US_PER_S
from gpusquad.server.services.prediction.accuracy import P50, P90, at_levels, errors
from gpusquad.server.views import Plain
from gpusquad.store.run_forecasts import CUT, RunForecastRow

K = TypeVar("K", bound=Hashable)
Rows = Sequence[RunForecastRow]


def lines(rows: Rows) -> list[Plain]:
    """By tenant and source, largest first."""
    found = _by(rows, [(row.tenant, row.source) for row in rows])
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [_line(tenant, source, own) for (tenant, source), own in ordered]


def series(rows: Rows, since_us: int, span_us: int) -> list[Plain]:
    """By span and source, in order of time."""
    found = _by(rows, [(((row.settled_us or 0) - since_us) // span_us, row.source) for row in rows])
    return [_span(since_us + at * span_us, source, own) for (at, source), own in sorted(found.items())]


def points(rows: Rows, most: int) -> list[Plain]:
    """Evenly spread over time, oldest first, so that the newest do not hide the others."""
    judged = [row for row in reversed(rows) if row.truth_us is not None and row.levels and row.how not in CUT]
    step = max(1, -(-len(judged) // most)) if most else len(judged) + 1
    return [_point(row) for row in judged[::step]] if most else []


def _by(rows: Rows, keys: Sequence[K]) -> dict[K, list[RunForecastRow]]:
    found: defaultdict[K, list[RunForecastRow]] = defaultdict(list)
    for key, row in zip(keys, rows, strict=True):
        found[key].append(row)
    return found


def _line(tenant: str, source: str, own: Rows) -> Plain:
    told = {name: value for name, value in errors("", own).items() if name != "key"}
    return {"tenant": tenant, "source": source, **told}


def _span(at_us: int, source: str, own: Rows) -> Plain:
    told = errors("", own)
    return {
        "at_s": at_us / US_PER_S,
        "source": source,
        "count": told["count"],
        "median_ratio": told["median_ratio"],
        "within_p90": told["within_p90"],
        "bias": told["bias"],
    }


def _point(row: RunForecastRow) -> Plain:
    values = at_levels(row)
    return {
        "job": row.job_id,
        "attempt": row.attempt,
        "tenant": row.tenant,
        "source": row.source,
        "ended_s": (row.settled_us or 0) / US_PER_S,
        "predicted_s": values[P50] / US_PER_S,
        "high_s": values[P90] / US_PER_S,
        "truth_s": (row.truth_us or 0) / US_PER_S,
    }
