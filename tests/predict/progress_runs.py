"""Made-up runs with everything that real ones do: slow starts, evaluations, checkpoints, neighbours, drift, noise."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

US = 1_000_000


@dataclass(frozen=True)
class Run:
    """The end of every step in seconds, when the run ended, and what was reported: when, and how many steps."""

    ends_s: np.ndarray
    ended_s: float
    reports: list[tuple[float, int]]

    @property
    def total(self) -> int:
        return len(self.ends_s)


def make_run(dice: np.random.Generator, *, plain: bool = False) -> Run:
    """One of many kinds."""
    total = int(np.exp(dice.uniform(np.log(40), np.log(6000))))
    length_s = float(np.exp(dice.uniform(np.log(120), np.log(20_000))))
    pace_s = np.full(total, length_s / total)
    if not plain:
        pace_s *= _drift(dice, total) * _noise(dice, total)
        _warm_up(dice, pace_s)
        _pauses(dice, pace_s, length_s)
    started_s = dice.uniform(1, 40)
    ends_s = _beside(dice, started_s + np.cumsum(pace_s), length_s) if not plain else started_s + np.cumsum(pace_s)
    tail_s = dice.uniform(0.2, 3) + (dice.uniform(0, 0.02) * length_s if dice.random() < 0.3 else 0)
    return Run(ends_s, float(ends_s[-1] + tail_s), _reports(dice, ends_s))


def _drift(dice: np.random.Generator, total: int) -> np.ndarray:
    kind = dice.random()
    if kind < 0.7:
        return np.ones(total)
    last = np.exp(dice.uniform(np.log(0.6), np.log(2.5)))
    way = np.linspace(1, last, total)
    if kind < 0.85:
        return way
    stages = dice.integers(3, 9)
    return way[(np.arange(total) * stages // total) * (total // stages)]


def _noise(dice: np.random.Generator, total: int) -> np.ndarray:
    size, keeps = np.exp(dice.uniform(np.log(0.01), np.log(0.4))), dice.choice([0.0, 0.9, 0.99])
    shocks = dice.normal(0, size * np.sqrt(1 - keeps**2), total)
    values, value = np.empty(total), 0.0
    for index, shock in enumerate(shocks):
        value = keeps * value + shock
        values[index] = value
    return np.exp(values)


def _warm_up(dice: np.random.Generator, pace_s: np.ndarray) -> None:
    kind = dice.random()
    if kind < 0.4:
        pace_s[0] += dice.uniform(2, 40)
    elif kind < 0.7:
        slow = max(1, int(len(pace_s) * dice.uniform(0, 0.03)))
        pace_s[:slow] *= np.linspace(dice.uniform(1.5, 6), 1, slow)


def _pauses(dice: np.random.Generator, pace_s: np.ndarray, length_s: float) -> None:
    for chance in (0.6, 0.3):
        if dice.random() < chance:
            times = dice.integers(2, 30)
            every = max(2, len(pace_s) // times)
            one_s = length_s / times * np.exp(dice.uniform(np.log(0.02), np.log(0.5)))
            for at in range(every - 1, len(pace_s), every):
                pace_s[at] += one_s * np.exp(dice.normal(0, 0.08))


def _beside(dice: np.random.Generator, ends_s: np.ndarray, length_s: float) -> np.ndarray:
    """Neighbours who come and go: while one is there, the same work takes longer."""
    if dice.random() < 0.5:
        return ends_s
    took_s = np.diff(ends_s, prepend=0)
    at_s, here, slow, until_s = 0.0, False, 1.0, dice.exponential(0.5 * length_s)
    out = np.empty_like(took_s)
    for index, step_s in enumerate(took_s):
        if at_s > until_s:
            here = not here
            slow = dice.uniform(1.2, 2.5) if here else 1.0
            until_s = at_s + dice.exponential((0.25 if here else 0.5) * length_s)
        at_s += step_s * slow
        out[index] = at_s
    return out


def _reports(dice: np.random.Generator, ends_s: np.ndarray) -> list[tuple[float, int]]:
    """Looked at every so often; a coarse one says only whole epochs."""
    every = ceil(len(ends_s) / dice.integers(8, 30)) if dice.random() < 0.15 else 1
    look_s = max(1.0, ends_s[-1] / 500)
    found, before = [], -1
    for now_s in np.arange(look_s, ends_s[-1] + look_s, look_s):
        done = int(np.searchsorted(ends_s, now_s, side="right")) // every * every
        if done != before and done > 0:
            found.append((float(ends_s[done - 1]), done))
            before = done
    return found
