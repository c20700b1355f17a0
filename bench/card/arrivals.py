"""When requests come: drawn from a seed, so that every condition meets the same ones."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

Kind = Literal["poisson", "bursty"]
_BURST, _LULL = 2.5, 0.5
"""Rates in and between bursts, over the mean rate: a quarter of the time in bursts makes the mean 1."""
_BURST_S, _LULL_S = 0.25, 0.75
"""Mean lengths of both, drawn from an exponential distribution."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many requests come, and how evenly."""

    per_s: float
    kind: Kind = "poisson"


def arrivals(load: Load, length_s: float, seed: str) -> list[float]:
    """Seconds from the beginning, in order. The same for the same load, length and seed on every machine."""
    rng = random.Random(f"{seed} {load.kind} {load.per_s:g} {length_s:g}")
    if load.kind == "poisson":
        return _poisson(rng, load.per_s, 0.0, length_s)
    found: list[float] = []
    for (from_s, in_burst), (to_s, _) in pairwise(_turns(rng, length_s)):
        found += _poisson(rng, load.per_s * (_BURST if in_burst else _LULL), from_s, to_s)
    return found


def _turns(rng: random.Random, length_s: float) -> list[tuple[float, bool]]:
    """Start times of bursts and lulls. The first is drawn in proportion to its share of the time, so that no instant is
    special."""
    at_s, in_burst = 0.0, rng.random() < _BURST_S / (_BURST_S + _LULL_S)
    turns = []
    while at_s < length_s:
        turns.append((at_s, in_burst))
        at_s += rng.expovariate(1 / (_BURST_S if in_burst else _LULL_S))
        in_burst = not in_burst
    return [*turns, (length_s, in_burst)]


def _poisson(rng: random.Random, per_s: float, from_s: float, to_s: float) -> list[float]:
    if per_s <= 0:
        return []
    found, at_s = [], from_s + rng.expovariate(per_s)
    while at_s < to_s:
        found.append(at_s)
        at_s += rng.expovariate(per_s)
    return found
