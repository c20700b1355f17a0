"""Synthetic runs with slow starts, evaluations, checkpoints, neighbours, drift and noise."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

US = 1_000_000


@dataclass(frozen=True)
class Run:
    """A run: the end of every step and of the run in seconds, and the reports (time, steps done)."""

    ends_s: np.ndarray
    ended_s: float
    reports: list[tuple[float, int]]

    @property
    def total(self) -> int:
        return len(self.ends_s)


def make_run(rng: np.random.Generator, *, plain: bool = False) -> Run:
    """A random run. ``plain``: at a constant pace, without neighbours."""
    total = int(np.exp(rng.uniform(np.log(40), np.log(6000))))
    length_s = float(np.exp(rng.uniform(np.log(120), np.log(20_000))))
    pace_s = np.full(total, length_s / total)
    if not plain:
        pace_s *= _drift(rng, total) * _noise(rng, total)
        _warm_up(rng, pace_s)
        _pauses(rng, pace_s, length_s)
    started_s = rng.uniform(1, 40)
    ends_s = (
        _with_neighbours(rng, started_s + np.cumsum(pace_s), length_s) if not plain else started_s + np.cumsum(pace_s)
    )
    tail_s = rng.uniform(0.2, 3) + (rng.uniform(0, 0.02) * length_s if rng.random() < 0.3 else 0)
    return Run(ends_s, float(ends_s[-1] + tail_s), _reports(rng, ends_s))


def _drift(rng: np.random.Generator, total: int) -> np.ndarray:
    kind = rng.random()
    if kind < 0.7:
        return np.ones(total)
    last = np.exp(rng.uniform(np.log(0.6), np.log(2.5)))
    ramp = np.linspace(1, last, total)
    if kind < 0.85:
        return ramp
    stages = rng.integers(3, 9)
    return ramp[(np.arange(total) * stages // total) * (total // stages)]


def _noise(rng: np.random.Generator, total: int) -> np.ndarray:
    size, correlation = np.exp(rng.uniform(np.log(0.01), np.log(0.4))), rng.choice([0.0, 0.9, 0.99])
    shocks = rng.normal(0, size * np.sqrt(1 - correlation**2), total)
    values, value = np.empty(total), 0.0
    for index, shock in enumerate(shocks):
        value = correlation * value + shock
        values[index] = value
    return np.exp(values)


def _warm_up(rng: np.random.Generator, pace_s: np.ndarray) -> None:
    kind = rng.random()
    if kind < 0.4:
        pace_s[0] += rng.uniform(2, 40)
    elif kind < 0.7:
        slow = max(1, int(len(pace_s) * rng.uniform(0, 0.03)))
        pace_s[:slow] *= np.linspace(rng.uniform(1.5, 6), 1, slow)


def _pauses(rng: np.random.Generator, pace_s: np.ndarray, length_s: float) -> None:
    for chance in (0.6, 0.3):
        if rng.random() < chance:
            count = rng.integers(2, 30)
            every = max(2, len(pace_s) // count)
            pause_s = length_s / count * np.exp(rng.uniform(np.log(0.02), np.log(0.5)))
            for at in range(every - 1, len(pace_s), every):
                pace_s[at] += pause_s * np.exp(rng.normal(0, 0.08))


def _with_neighbours(rng: np.random.Generator, ends_s: np.ndarray, length_s: float) -> np.ndarray:
    """Step ends beside a neighbour that comes and goes. Steps take longer while it is present."""
    if rng.random() < 0.5:
        return ends_s
    took_s = np.diff(ends_s, prepend=0)
    at_s, is_present, slowdown, until_s = 0.0, False, 1.0, rng.exponential(0.5 * length_s)
    out = np.empty_like(took_s)
    for index, step_s in enumerate(took_s):
        if at_s > until_s:
            is_present = not is_present
            slowdown = rng.uniform(1.2, 2.5) if is_present else 1.0
            until_s = at_s + rng.exponential((0.25 if is_present else 0.5) * length_s)
        at_s += step_s * slowdown
        out[index] = at_s
    return out


def _reports(rng: np.random.Generator, ends_s: np.ndarray) -> list[tuple[float, int]]:
    """Progress reports at a fixed interval. Some runs report whole epochs only."""
    every = ceil(len(ends_s) / rng.integers(8, 30)) if rng.random() < 0.15 else 1
    interval_s = max(1.0, ends_s[-1] / 500)
    reports, reported = [], -1
    for now_s in np.arange(interval_s, ends_s[-1] + interval_s, interval_s):
        done = int(np.searchsorted(ends_s, now_s, side="right")) // every * every
        if done != reported and done > 0:
            reports.append((float(ends_s[done - 1]), done))
            reported = done
    return reports
