"""Time of a service's requests: those that find it idle and wake it, and those that follow another.

Arrivals are known and the service handles one request at a time. A request's service time is therefore from its
arrival, or from the end of the previous request, to its own end. A context switch or a running kernel delays requests
that wake the service. An effect on every request also delays those that follow, and a queue accumulates it. A long
simulation with the times of both kinds gives the tail, more precisely than the tail of few requests.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench.card import pair_plan as plan
from bench.card.arrivals import arrivals
from bench.card.marks import markdown, number
from bench.card.pair_blocks import Timing
from bench.card.pair_plan import Pair
from bench.card.rows import Row

DRAWN_S, DRAWS = 50.0, 40
_PERCENTILES = (50, 90, 99)
_HEADINGS = ("condition", *(f"woke it: p{q} over alone, ms" for q in _PERCENTILES), "mean",
             "followed: mean over alone, ms", "p99 / alone, drawn")  # fmt: skip
Kinds = tuple[list[float], list[float]]
"""Seconds of those that woke it, and of those that followed."""


@dataclass(frozen=True)
class Wakes:
    """Result of one condition of one pair, relative to solo."""

    pair: str
    condition: str
    woke_ms: tuple[float, ...]
    woke_mean_ms: float
    followed_mean_ms: float
    drawn_ratio: float


def own_times(coming_s: Sequence[float], late_s: Sequence[float]) -> Kinds:
    """Of all but the first, before which nothing is known."""
    woke, followed = [], []
    for at in range(1, len(coming_s)):
        ended_s, before_s = coming_s[at] + late_s[at], coming_s[at - 1] + late_s[at - 1]
        if coming_s[at] > before_s:
            woke.append(ended_s - coming_s[at])
        else:
            followed.append(ended_s - before_s)
    return woke, followed


def drawn_p99_s(pair: Pair, kinds: Kinds) -> float:
    """Of requests that come as the pair's do, each with a time of its kind."""
    rng, late_s = random.Random(pair.name), []
    for draw in range(DRAWS):
        ends_s = 0.0
        for at_s in arrivals(pair.load, DRAWN_S, f"{pair.name} drawn {draw}"):
            ends_s = at_s + rng.choice(kinds[0]) if at_s > ends_s else ends_s + rng.choice(kinds[1])
            late_s.append(ends_s - at_s)
    return float(np.percentile(late_s, 99))


def wakes(rows: Sequence[Row]) -> list[Wakes]:
    """Of the pairs as they are planned now."""
    found = []
    for pair in plan.PAIRS:
        kinds = {name: _kinds(rows, pair, name) for name in plan.ALL_CONDITIONS if name != plan.TRAINING_ALONE}
        alone = kinds[plan.ALONE]
        if all(alone):
            base_s = drawn_p99_s(pair, alone)
            found += [_told(pair, name, own, alone, base_s) for name, own in kinds.items() if all(own)]
    return found


def _kinds(rows: Sequence[Row], pair: Pair, condition: str) -> Kinds:
    woke: list[float] = []
    followed: list[float] = []
    timing = Timing()
    for row in plan.blocks_of(rows, pair, pair.setup(timing.length_s)):
        if row["condition"] == condition:
            coming = arrivals(pair.load, timing.counted_to_s, f"{pair.name} {row['repeat']}")
            counted = [at_s for at_s in coming if at_s >= timing.lead_in_s]
            first, later = own_times(counted, [us / 1e6 for us in row["late_us"]])
            woke, followed = woke + first, followed + later
    return woke, followed


def _told(pair: Pair, condition: str, own: Kinds, alone: Kinds, base_s: float) -> Wakes:
    more = np.percentile(own[0], _PERCENTILES) - np.percentile(alone[0], _PERCENTILES)
    return Wakes(
        pair.name, condition, tuple(float(1000 * one) for one in more), 1000 * _more(own[0], alone[0]),
        1000 * _more(own[1], alone[1]), drawn_p99_s(pair, own) / base_s,
    )  # fmt: skip


def _more(own: Sequence[float], alone: Sequence[float]) -> float:
    return float(np.mean(own) - np.mean(alone))


def shown(found: Sequence[Wakes]) -> str:
    parts = []
    for pair in dict.fromkeys(one.pair for one in found):
        lines = [
            (one.condition, *map(number, one.woke_ms), number(one.woke_mean_ms), number(one.followed_mean_ms),
             number(one.drawn_ratio))
            for one in found if one.pair == pair and one.condition != plan.ALONE
        ]  # fmt: skip
        parts.append(f"### {pair}\n\n{markdown(_HEADINGS, lines)}\n")
    return "\n".join(parts)


def plain(found: Sequence[Wakes]) -> list[dict[str, Any]]:
    return [asdict(one) for one in found]
