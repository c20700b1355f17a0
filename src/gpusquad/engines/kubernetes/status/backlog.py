"""Queue of status writes, the most urgent first. Pure: the time is passed in.

For each pod and reason only the newest message waits, so the queue is bounded by the number of pods. Normal events
beyond ``max_normal_events`` are dropped; warnings never are.
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
"""Reason under which the nominated node of a pod is queued."""

_MAX_STALE = 1000


class Urgency(IntEnum):
    """Lower values are written first."""

    LEAVING = 0
    """The pod will be deleted soon."""
    RESERVATION = 1
    REASON = 2
    NORMAL = 3


@dataclass(frozen=True, slots=True)
class BacklogEntry:
    """``message`` None: only the nominated node (``node``) is to be written."""

    uid: str
    message: StatusMessage | None
    urgency: Urgency
    number: int = 0
    """Index of the pod in its gang. Later pods are ranked as if they stood behind the first one in the queue."""
    position: int = 0
    """In the scheduler's queue; lower is written first."""
    pod: Object | None = field(default=None, compare=False)
    """The pod when the message was queued: it may be deleted before the write."""
    node: str = ""

    @property
    def slot(self) -> Slot:
        return (self.uid, self.message.reason if self.message is not None else NOMINATION)

    @property
    def rank(self) -> tuple[int, int]:
        return (self.urgency, self.position + self.number)


@dataclass
class Backlog:
    """``dropped`` counts normal events that found no room."""

    max_normal_events: int
    dropped: int = 0
    _entries: dict[Slot, tuple[BacklogEntry, int]] = field(default_factory=dict)
    _ready: list[tuple[tuple[int, int], int, Slot]] = field(default_factory=list)
    _later: list[tuple[float, int, Slot]] = field(default_factory=list)
    _unimportant: int = 0
    gangs: int = 0
    """First pods of gangs among the entries."""

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: BacklogEntry, due_s: float = 0.0, now_s: float = 0.0) -> bool:
        """False: dropped for lack of room."""
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
        self._compact()
        return True

    def discard(self, slot: Slot) -> None:
        found = self._entries.pop(slot, None)
        if found is not None:
            self._unimportant -= _is_unimportant(found[0])
            self.gangs -= found[0].number == 0

    def take(self, now_s: float) -> BacklogEntry | None:
        """The most urgent entry that is due."""
        self._make_ready(now_s)
        while self._ready:
            _, number, slot = heapq.heappop(self._ready)
            found = self._entries.get(slot)
            if found is not None and found[1] == number:
                self.discard(slot)
                return found[0]
        return None

    def next_s(self) -> float | None:
        """When the next entry becomes due, if none is due now."""
        while self._later and not self._is_current(self._later[0][1], self._later[0][2]):
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None

    def _make_ready(self, now_s: float) -> None:
        while self._later and self._later[0][0] <= now_s:
            _, number, slot = heapq.heappop(self._later)
            if self._is_current(number, slot):
                heapq.heappush(self._ready, (self._entries[slot][0].rank, number, slot))

    def _compact(self) -> None:
        """Removes replaced entries from the heaps."""
        if len(self._ready) + len(self._later) > 2 * len(self._entries) + _MAX_STALE:
            self._ready = [one for one in self._ready if self._is_current(one[1], one[2])]
            self._later = [one for one in self._later if self._is_current(one[1], one[2])]
            heapq.heapify(self._ready)
            heapq.heapify(self._later)

    def _is_current(self, number: int, slot: Slot) -> bool:
        found = self._entries.get(slot)
        return found is not None and found[1] == number


def _is_unimportant(entry: BacklogEntry) -> bool:
    return entry.message is not None and not entry.message.is_warning
