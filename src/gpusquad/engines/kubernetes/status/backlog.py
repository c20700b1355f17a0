"""What is still to be told, the most urgent first. Pure: the time is passed in.

For each pod and reason only the newest text waits, so however fast things change it never grows beyond the pods there
are. Unimportant things that find no room are left out; warnings always find room.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from enum import IntEnum

from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.engines.kubernetes.status.rate_limits import Slot
from gpusquad.kube.objects import Object

NOMINATION = "-nomination"
"""The reason under which a node that is promised to a pod waits to be written."""

_MOST_STALE = 1000


class Urgency(IntEnum):
    """Who goes first."""

    LEAVING = 0
    """The pod will be gone soon."""
    PROMISE = 1
    WHY = 2
    USUAL = 3


@dataclass(frozen=True, slots=True)
class BacklogEntry:
    """``saying`` None: only the promised node (``node``) is to be written."""

    uid: str
    saying: StatusMessage | None
    urgency: Urgency
    number: int = 0
    """Which pod of its gang: the others come after the first, as if they stood behind it in the line."""
    place: int = 0
    """In the line; lower goes first."""
    pod: Object | None = field(default=None, compare=False)
    """As it was when it was said: it may be gone when it is written."""
    node: str = ""

    @property
    def slot(self) -> Slot:
        return (self.uid, self.saying.reason if self.saying is not None else NOMINATION)

    @property
    def rank(self) -> tuple[int, int]:
        return (self.urgency, self.place + self.number)


@dataclass
class Backlog:
    """``dropped`` counts what was left out."""

    max_normal_events: int
    dropped: int = 0
    _entries: dict[Slot, tuple[BacklogEntry, int]] = field(default_factory=dict)
    _ready: list[tuple[tuple[int, int], int, Slot]] = field(default_factory=list)
    _later: list[tuple[float, int, Slot]] = field(default_factory=list)
    _unimportant: int = 0
    gangs: int = 0
    """How many first pods of gangs are among those that wait."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: BacklogEntry, due_s: float = 0.0, now_s: float = 0.0) -> bool:
        """False: there was no room."""
        self.discard(entry.slot)
        unimportant = _is_unimportant(entry)
        if unimportant and self._unimportant >= self.max_normal_events:
            self.dropped += 1
            return False
        number = next(self._numbers)
        self._entries[entry.slot] = (entry, number)
        self._unimportant += unimportant
        self.gangs += entry.number == 0
        if due_s > now_s:
            heapq.heappush(self._later, (due_s, number, entry.slot))
        else:
            heapq.heappush(self._ready, (entry.rank, number, entry.slot))
        self._tidy()
        return True

    def discard(self, slot: Slot) -> None:
        found = self._entries.pop(slot, None)
        if found is not None:
            self._unimportant -= _is_unimportant(found[0])
            self.gangs -= found[0].number == 0

    def take(self, now_s: float) -> BacklogEntry | None:
        """The most urgent one that is due."""
        self._ripen(now_s)
        while self._ready:
            _, number, slot = heapq.heappop(self._ready)
            found = self._entries.get(slot)
            if found is not None and found[1] == number:
                self.discard(slot)
                return found[0]
        return None

    def next_s(self) -> float | None:
        """When the next one is due, if none is now."""
        while self._later and not self._stands(self._later[0][1], self._later[0][2]):
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def _ripen(self, now_s: float) -> None:
        while self._later and self._later[0][0] <= now_s:
            _, number, slot = heapq.heappop(self._later)
            if self._stands(number, slot):
                heapq.heappush(self._ready, (self._entries[slot][0].rank, number, slot))

    def _tidy(self) -> None:
        """What was replaced while it waited must not pile up."""
        if len(self._ready) + len(self._later) > 2 * len(self._entries) + _MOST_STALE:
            self._ready = [one for one in self._ready if self._stands(one[1], one[2])]
            self._later = [one for one in self._later if self._stands(one[1], one[2])]
            heapq.heapify(self._ready)
            heapq.heapify(self._later)

    def _stands(self, number: int, slot: Slot) -> bool:
        found = self._entries.get(slot)
        return found is not None and found[1] == number


def _is_unimportant(entry: BacklogEntry) -> bool:
    return entry.saying is not None and not entry.saying.is_warning
