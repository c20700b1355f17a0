"""Accuracy of start forecasts: how long jobs were to wait, and how long they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gpusquad.model.units import US_PER_S

Plain = dict[str, Any]
NEAR_US = 600 * US_PER_S
"""A start within ten minutes of its forecast. The waits of ARCHER2 are judged by it."""
FACTOR = 2.0
MIN_WAIT_US = 60 * US_PER_S
"""Ratios of waits use at least this wait: twice a second does not matter."""

_FIGURES = ("within_10min", "within_factor_2", "within_p50", "within_p90", "median_error_s", "median_wait_s")


class SettledForecast(Protocol):
    """A forecast with the actual start."""

    @property
    def made_us(self) -> int: ...
    @property
    def mid_us(self) -> int: ...
    @property
    def high_us(self) -> int | None: ...
    @property
    def started_us(self) -> int | None: ...


def wait_errors(key: str, rows: Sequence[SettledForecast]) -> Plain:
    """Of the first forecasts of jobs that started."""
    judged = [row for row in rows if row.started_us is not None]
    if not judged:
        return {"key": key, "count": 0, **dict.fromkeys(_FIGURES)}
    made, mid, start = np.array([(row.made_us, row.mid_us, row.started_us) for row in judged], dtype=np.float64).T
    by_high = [(row.started_us or 0) <= row.high_us for row in judged if row.high_us is not None]
    error_us, waited_us = np.abs(start - mid), start - made
    ratio = np.maximum(waited_us, MIN_WAIT_US) / np.maximum(mid - made, MIN_WAIT_US)
    figures = (
        np.mean(error_us <= NEAR_US),
        np.mean((ratio <= FACTOR) & (ratio >= 1 / FACTOR)),
        np.mean(start <= mid),
        np.mean(by_high) if by_high else None,
        np.median(error_us) / US_PER_S,
        np.median(waited_us) / US_PER_S,
    )
    return {"key": key, "count": len(judged), **dict(zip(_FIGURES, map(_plain, figures), strict=True))}


def _plain(figure: Any) -> float | None:
    return None if figure is None else float(figure)
