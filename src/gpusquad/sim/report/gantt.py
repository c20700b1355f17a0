"""Bars of a Gantt chart of the cards, limited to what a browser can draw."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.cluster import Cluster
from gpusquad.sim.outcome import Outcome, SimulationResult

Ints = NDArray[np.int64]

MAX_BARS = 5000
MAX_CARDS = 64


@dataclass(frozen=True, slots=True)
class Bars:
    """Parallel arrays, one entry per bar: one attempt on one card, or several short ones in a row."""

    card: Ints
    """Position among the cards shown."""
    lane: Ints
    """Lane within the card, if jobs share it."""
    start_us: Ints
    end_us: Ints
    outcome: Ints
    """Index of the job; -1: several."""
    attempts: Ints

    def __len__(self) -> int:
        return len(self.card)

    def pick(self, index: NDArray) -> Bars:
        return Bars(*(getattr(self, name)[index] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Gantt:
    """Bars, their cards, and what was left out."""

    bars: Bars
    cards: tuple[str, ...]
    lanes: Ints
    """Number of lanes of each card."""
    all_cards: int
    attempts: int
    """Attempts on the cards shown, before short ones were joined."""
    shortest_us: int
    """Attempts shorter than this may be joined; 0: each has its own bar."""


def gantt(result: SimulationResult, most_bars: int = MAX_BARS, most_cards: int = MAX_CARDS) -> Gantt:
    """The Gantt chart of a result."""
    shown, names = cards_shown(result.cluster, most_cards)
    bars = _with_lanes(_all_bars(result.outcomes, shown))
    lanes = np.ones(len(names), dtype=np.int64)
    np.maximum.at(lanes, bars.card, bars.lane + 1)
    drawn, shortest_us = join_short(bars, most_bars)
    return Gantt(drawn, names, lanes, result.cluster.gpus, len(bars), shortest_us)


def cards_shown(cluster: Cluster, most: int) -> tuple[list[int], tuple[str, ...]]:
    """The cards to draw: all, or those of nodes spread evenly over the cluster. Also the position of each card of the
    cluster among them (-1: not shown).
    """
    nodes = [node for node in cluster.nodes if node.cards]
    step = max(1, -(-cluster.gpus // most))
    chosen = {node.id for node in nodes[::step]}
    position, names = [], []
    for node in cluster.nodes:
        for card in node.cards:
            show = node.id in chosen and len(names) < most
            position.append(len(names) if show else -1)
            if show:
                names.append(card.id)
    return position, tuple(names)


def _all_bars(outcomes: list[Outcome], position: list[int]) -> Bars:
    rows = [
        (position[card], 0, span.started_us, span.ended_us, i, 1)
        for i, outcome in enumerate(outcomes)
        for span in outcome.spans
        if span.ended_us > span.started_us
        for card in span.cards
        if position[card] >= 0
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6)
    bars = Bars(*columns.T)
    return bars.pick(np.lexsort((bars.start_us, bars.card)))


def _with_lanes(bars: Bars) -> Bars:
    """Bars of one card that overlap get separate lanes."""
    # In order of start, if any two overlap then some neighbours do.
    overlaps = (bars.card[1:] == bars.card[:-1]) & (bars.start_us[1:] < bars.end_us[:-1])
    lane = bars.lane.copy()
    for card in np.unique(bars.card[1:][overlaps]):
        of_card = np.flatnonzero(bars.card == card)
        lane[of_card] = _lanes(bars.start_us[of_card].tolist(), bars.end_us[of_card].tolist())
    mended = Bars(bars.card, lane, bars.start_us, bars.end_us, bars.outcome, bars.attempts)
    return mended.pick(np.lexsort((mended.start_us, mended.lane, mended.card)))


def _lanes(starts: list[int], ends: list[int]) -> list[int]:
    """The lowest free lane for each, in order of start."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    lanes, made = [], 0
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, made = made, made + 1
        heapq.heappush(busy, (end, lane))
        lanes.append(lane)
    return lanes


def join_short(bars: Bars, most: int) -> tuple[Bars, int]:
    """Join short neighbours until at most ``most`` bars are left (or one per lane).

    Leaving bars out would make a busy card look idle; joined bars keep the overall picture true.
    """
    if len(bars) <= most:
        return bars, 0
    whole_us = int(bars.end_us.max() - bars.start_us.min())
    shortest_us = max(1, whole_us // 2000)
    while True:
        joined = _join(bars, shortest_us)
        if len(joined) <= most or shortest_us > whole_us:
            return joined, shortest_us
        shortest_us = shortest_us * 3 // 2 + 1


def _join(bars: Bars, shortest_us: int) -> Bars:
    short = bars.end_us - bars.start_us < shortest_us
    same_lane = (bars.card[1:] == bars.card[:-1]) & (bars.lane[1:] == bars.lane[:-1])
    near = bars.start_us[1:] - bars.end_us[:-1] < shortest_us
    first = np.append(True, ~(short[1:] & short[:-1] & same_lane & near))
    begins = np.flatnonzero(first)
    attempts = np.add.reduceat(bars.attempts, begins)
    return Bars(
        card=bars.card[begins],
        lane=bars.lane[begins],
        start_us=bars.start_us[begins],
        end_us=np.maximum.reduceat(bars.end_us, begins),
        outcome=np.where(attempts == 1, bars.outcome[begins], -1),
        attempts=attempts,
    )
