"""Accuracy of predicted run times: errors, calibration and points to draw, in the form of the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from gpusquad.client.types import CalibrationPoint, ErrorLine, PredictionPoint
from gpusquad.model.prediction import LEVELS, Quantiles
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import RunTimeAccuracy
from gpusquad.store import run_forecasts
from gpusquad.store.run_forecasts import CUT, RunForecastRow

MAX_ROWS = 50_000
"""Newest predictions used."""
RECORD_ROWS, RECORD_US = 200, 90 * 86_400 * US_PER_S
"""Number and maximum age of the predictions in the record beside a single forecast."""
MIN_TRUTH_US = US_PER_S
"""Relative errors use at least this run time: 300 % of a tenth of a second does not matter."""
P50, P90, P99 = (LEVELS.index(level) for level in (0.5, 0.9, 0.99))


@dataclass(frozen=True, slots=True)
class PredictionReport:
    """Accuracy of all predictions."""

    rows: int
    tenants: Sequence[ErrorLine]
    sources: Sequence[ErrorLine]
    calibration: Sequence[CalibrationPoint]
    points: Sequence[PredictionPoint]


def report(rows: Sequence[RunForecastRow], points: int = 0) -> PredictionReport:
    """Tables by tenant and by source, the calibration of each source, and ``points`` points to draw."""
    judged = [row for row in rows if _is_judged(row)]
    return PredictionReport(
        len(rows),
        _grouped(rows, lambda row: row.tenant),
        _grouped(rows, lambda row: row.source),
        [level for source, own in _groups(judged, lambda row: row.source) for level in _calibration(source, own)],
        [_point(row) for row in _thinned(judged, points)],
    )


def record_of(c: Connection, tenant: str, source: str, now_us: int) -> RunTimeAccuracy | None:
    """Of the latest such predictions for that tenant."""
    return record(run_forecasts.settled(c, now_us - RECORD_US, tenant, source, RECORD_ROWS, with_cut=False))


def record(rows: Sequence[RunForecastRow]) -> RunTimeAccuracy | None:
    """None: no data."""
    judged = [row for row in rows if _is_judged(row)]
    if not judged:
        return None
    truth, values = _arrays(judged)
    return RunTimeAccuracy(
        len(judged), float(np.mean(truth <= values[:, P90])), float(np.median(_ratios(truth, values)))
    )


def errors(key: str, rows: Sequence[RunForecastRow]) -> ErrorLine:
    judged = [row for row in rows if _is_judged(row)]
    found = ErrorLine(
        key=key, count=len(judged), cut=sum(row.how in CUT for row in rows), median_ratio=None, mean_error_s=None,
        within_p50=None, within_p90=None, within_p99=None, pinball_s=None, bias=None,
    )  # fmt: skip
    if not judged:
        return found
    truth, values = _arrays(judged)
    middle = values[:, P50]
    found["median_ratio"] = float(np.median(_ratios(truth, values)))
    found["mean_error_s"] = float(np.mean(np.abs(truth - middle))) / US_PER_S
    found["within_p50"], found["within_p90"], found["within_p99"] = (
        float(np.mean(truth <= values[:, at])) for at in (P50, P90, P99)
    )
    found["pinball_s"] = pinball(truth, values) / US_PER_S
    found["bias"] = float(np.median(np.log(np.maximum(truth, 1.0) / np.maximum(middle, 1.0))))
    return found


def pinball(truth: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """The mean over runs and levels of ``level * under + (1 - level) * over``."""
    under = truth[:, None] - values
    levels = np.asarray(LEVELS)
    return float(np.mean(np.maximum(levels * under, (levels - 1) * under)))


def at_levels(row: RunForecastRow) -> list[int]:
    """The prediction at the levels used for all statistics."""
    if tuple(row.levels) == LEVELS:
        return row.values_us
    run = Quantiles(tuple(row.levels), tuple(row.values_us), row.source)
    return [run.at(level) for level in LEVELS]


def _is_judged(row: RunForecastRow) -> bool:
    return row.truth_us is not None and bool(row.levels) and row.how not in CUT


def _arrays(rows: Sequence[RunForecastRow]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Actual run times, and for each the values at the levels."""
    truth = np.array([row.truth_us for row in rows], dtype=np.float64)
    return truth, np.array([at_levels(row) for row in rows], dtype=np.float64)


def _ratios(truth: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.abs(truth - values[:, P50]) / np.maximum(truth, MIN_TRUTH_US)


def _groups(
    rows: Iterable[RunForecastRow], key: Callable[[RunForecastRow], str]
) -> list[tuple[str, list[RunForecastRow]]]:
    """Largest first."""
    found: defaultdict[str, list[RunForecastRow]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _grouped(rows: Sequence[RunForecastRow], key: Callable[[RunForecastRow], str]) -> list[ErrorLine]:
    return [errors(name, own) for name, own in _groups(rows, key)]


def _calibration(source: str, rows: Sequence[RunForecastRow]) -> list[CalibrationPoint]:
    truth, values = _arrays(rows)
    observed = np.mean(truth[:, None] <= values, axis=0).tolist()
    return [
        CalibrationPoint(source=source, level=level, observed=part, count=len(rows))
        for level, part in zip(LEVELS, observed, strict=True)
    ]


def _thinned(rows: Sequence[RunForecastRow], most: int) -> Sequence[RunForecastRow]:
    """Evenly spread over time, so that the newest do not hide the others."""
    if len(rows) <= most:
        return rows
    return [rows[int(at)] for at in np.linspace(0, len(rows) - 1, most)] if most else []


def _point(row: RunForecastRow) -> PredictionPoint:
    predicted_s, truth_s = at_levels(row)[P50] / US_PER_S, (row.truth_us or 0) / US_PER_S
    return PredictionPoint(source=row.source, predicted_s=predicted_s, truth_s=truth_s)
