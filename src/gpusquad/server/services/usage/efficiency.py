"""Use of GPU-hours: busy, allocated and idle, fragmented, wanted and idle, faulty, used outside.

Attempts give the allocation and samples the utilisation. The past does not change, so the utilisation of past slots is
read once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import CardStatus
from gpusquad.server.services.usage import usage_store as store
from gpusquad.server.services.usage.slot_grid import CardSeconds, Floats, SlotGrid, held
from gpusquad.store.database import Database

SLOTS_S = (600, 1800, 3600, 3 * 3600, 6 * 3600)
MAX_SAMPLES = 50_000
"""Cards times slots: with many cards or a long span, slots are longer."""
READ_US = 600 * US_PER_S
"""Samples are read for this long from the start of each slot."""
MAX_SLOTS_KEPT = 1_000
FRESH_US = 15 * US_PER_S
LATE_US = 120 * US_PER_S
"""After this delay no more samples of a time are written."""
_S_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class GpuHours:
    """GPU-hours by use. They add up to all hours."""

    busy: float
    reserved_idle: float
    fragmented: float
    idle_waiting: float
    idle: float
    unhealthy: float
    taken_outside: float
    unknown: float


@dataclass(frozen=True, slots=True)
class Efficiency:
    since_us: int
    until_us: int
    slot_us: int
    total: GpuHours
    nodes: dict[str, GpuHours]
    truncated: bool


@dataclass(frozen=True, slots=True)
class _Cards:
    ids: tuple[str, ...]
    node_ids: tuple[str, ...]
    nodes: np.ndarray
    """Index of each card's node."""
    faulty: frozenset[str]


class EfficiencyService:
    """Safe for any thread."""

    def __init__(
        self, database: Database, now_us: Callable[[], int], cards: Callable[[], Sequence[CardStatus]]
    ) -> None:
        self._database, self._now_us, self._cards = database, now_us, cards
        self._seen: OrderedDict[tuple[int, int], Floats] = OrderedDict()
        """Start and length of a slot to the utilisation of each card; NaN without samples."""
        self._seen_cards: tuple[str, ...] = ()
        self._last: dict[int, Efficiency] = {}
        self._lock = threading.Lock()

    def over(self, hours: int) -> Efficiency:
        """The last ``hours`` hours from the start of a slot. Computed once for all callers within a short time."""
        now_us = self._now_us()
        with self._lock:
            last = self._last.get(hours)
        if last is None or now_us - last.until_us >= FRESH_US:
            last = self._work_out(hours, now_us)
            with self._lock:
                self._last[hours] = last
        return last

    def _work_out(self, hours: int, now_us: int) -> Efficiency:
        cards = _cards_of(self._cards())
        slot_us = _slot_us(hours, len(cards.ids))
        start_us = max(0, now_us - hours * 3600 * US_PER_S) // slot_us * slot_us
        grid = SlotGrid(start_us, slot_us, max(1, -(-(now_us - start_us) // slot_us)), now_us)
        with self._database.read() as c:
            found, truncated = _held(c, grid, cards)
            seen = self._busy(c, grid, cards.ids)
        parts = _split(found, seen)
        total = np.array([part.sum() for part in parts]) / _S_PER_HOUR
        by_node = [np.bincount(cards.nodes, part.sum(axis=1), len(cards.node_ids)) / _S_PER_HOUR for part in parts]
        nodes = {name: GpuHours(*(float(part[at]) for part in by_node)) for at, name in enumerate(cards.node_ids)}
        return Efficiency(start_us, now_us, slot_us, GpuHours(*map(float, total)), nodes, truncated)

    def _busy(self, c: Connection, grid: SlotGrid, cards: tuple[str, ...]) -> Floats:
        """Cards by slots."""
        with self._lock:
            if cards != self._seen_cards:
                self._seen.clear()
                self._seen_cards = cards
            starts = [grid.start_us + at * grid.slot_us for at in range(grid.slots)]
            known = {at_us: self._seen[at_us, grid.slot_us] for at_us in starts if (at_us, grid.slot_us) in self._seen}
        known |= {at_us: _read(c, cards, at_us) for at_us in starts if at_us not in known}
        self._keep(known, grid)
        return np.stack([known[at_us] for at_us in starts], axis=1) if cards else np.zeros((0, grid.slots))

    def _keep(self, known: dict[int, Floats], grid: SlotGrid) -> None:
        over_us = grid.now_us - LATE_US
        with self._lock:
            for at_us, seen in known.items():
                if at_us + READ_US <= over_us:
                    self._seen[at_us, grid.slot_us] = seen
                    self._seen.move_to_end((at_us, grid.slot_us))
            while len(self._seen) > MAX_SLOTS_KEPT:
                self._seen.popitem(last=False)


def _held(c: Connection, grid: SlotGrid, cards: _Cards) -> tuple[CardSeconds, bool]:
    given = store.given(c, grid.start_us)
    runs: defaultdict[str, list[store.Span]] = defaultdict(list)
    for one in given:
        runs[one.job_id].append((one.started_us, one.ended_us))
    index = {card: at for at, card in enumerate(cards.ids)}
    spans = [([index[card] for card in one.cards if card in index], one.started_us, one.ended_us) for one in given]
    waits = store.waits(c, grid.start_us, runs)
    found = held(grid, cards.nodes, spans, _shut(c, cards, index, given), waits, lambda ids: store.shapes(c, ids))
    return found, max(len(given), len(waits)) > store.MAX_ROWS


def _shut(
    c: Connection, cards: _Cards, index: dict[str, int], given: Sequence[store.CardAttempt]
) -> list[tuple[list[int], int, int | None]]:
    """Closed by administrators, or faulty now since a run was lost on them."""
    of_node: defaultdict[str, list[int]] = defaultdict(list)
    for at, node in enumerate(cards.nodes.tolist()):
        of_node[cards.node_ids[node]].append(at)
    found: list[tuple[list[int], int, int | None]] = []
    for name, spans in store.shut(c, [*cards.ids, *cards.node_ids]).items():
        which = [index[name]] if name in index else of_node[name]
        found += [(which, start_us, end_us) for start_us, end_us in spans]
    for one in given:
        if one.how == "lost" and one.ended_us is not None:
            found += [([index[card]], one.ended_us, None) for card in one.cards if card in cards.faulty]
    return found


def _split(found: CardSeconds, seen: Floats) -> list[Floats]:
    """In the order of ``GpuHours``, cards by slots. A slot without samples of a card is unknown as a whole."""
    is_known = ~np.isnan(seen)
    free = found.fragmented + found.idle_waiting + found.idle
    worked = np.nan_to_num(seen) * (found.given + found.shut + free)
    busy = np.minimum(worked, found.given)
    outside = np.minimum(worked - busy, free)
    left = np.where(free > 0, (free - outside) / np.where(free > 0, free, 1.0), 0.0)
    known = [
        busy, found.given - busy, found.fragmented * left, found.idle_waiting * left, found.idle * left, found.shut,
        outside,
    ]  # fmt: skip
    everything = found.given + found.shut + free
    return [np.where(is_known, part, 0.0) for part in known] + [np.where(is_known, 0.0, everything)]


def _read(c: Connection, cards: Sequence[str], start_us: int) -> Floats:
    """Utilisation of each card; NaN without samples."""
    found = store.busy(c, cards, start_us, start_us + READ_US)
    return np.clip([found.get(card, np.nan) for card in cards], 0.0, 1.0)


def _slot_us(hours: int, cards: int) -> int:
    """The shortest slot that needs few enough reads."""
    wanted = (slot_s for slot_s in SLOTS_S if cards * hours * 3600 // slot_s <= MAX_SAMPLES)
    return next(wanted, SLOTS_S[-1]) * US_PER_S


def _cards_of(cards: Sequence[CardStatus]) -> _Cards:
    node_ids = tuple(dict.fromkeys(card.node for card in cards))
    index = {node: at for at, node in enumerate(node_ids)}
    faulty = frozenset(card.id for card in cards if card.state == "cordoned")
    nodes = np.array([index[card.node] for card in cards], dtype=np.int64)
    return _Cards(tuple(card.id for card in cards), node_ids, nodes, faulty)
