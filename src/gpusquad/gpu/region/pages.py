"""What the card daemon reads and writes, independent of the memory layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpusquad.model.squad import UNGATED_US


@dataclass(frozen=True, slots=True)
class ClientPage:
    """Sum of what the processes of a GPU client report."""

    requested_us: int = 0
    """Predicted GPU time of everything launched."""
    completed_us: int = 0
    """The part of it that is complete, predicted in the same way. The difference is queued."""
    launches: int = 0
    """Kernels, graphs and copies."""
    iterations: int = 0
    in_flight: int = 0
    """Batches that are queued and not known to be complete."""
    waiting: int = 0
    """Threads that wait at the gate."""
    used_bytes: int = 0
    peak_bytes: int = 0
    mask_now: int = 0
    """SM groups that its work goes to now; 0: unrestricted."""
    moves: int = 0
    waited_ns: int = 0
    pids: tuple[int, ...] = ()
    """Process ids of live processes, each in its own namespace."""
    uses_collectives: bool = False
    """One of its processes uses collectives. It is not held, because its peers on other cards would spin."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a client may do. All GPU times are cumulative, like `ClientPage.requested_us`."""

    squad: int = 0
    quota_bytes: int = 0
    credit_us: int = UNGATED_US
    mask: int = 0
    neighbours: int = 0
    restricted_us: int = 0
    """The mask applies until `requested_us` reaches this; 0: for the whole squad."""
    borrows: bool = False
    """While all neighbours are idle, only the loan limits what it may have queued."""
    loan_us: int = 0
    """GPU time of a loan, and so the wait of a neighbour that gets work again. 0: the shim's default, 2 ms."""
    loan_wait_max_us: int = 0
    """Longest wait of a borrower. Its queue may be waiting for this very launch. 0: 5 ms."""
    virtual_card_mask: int = 0
    """SM groups of its virtual card, which it never leaves. 0: the whole card."""
    linger_us: int = 0
    """A neighbour counts as busy for this long after its last work."""
    yield_to: int = 0
    """Slots. While one of these clients is busy, queued work of this one pauses on the card."""
    yield_point_us: int = 0
    """Queued GPU time between two points where it can pause. It can also pause before every longer kernel. 0: 50."""
    yield_max_ms: int = 0
    """Longest pause; then it runs for a hundredth of that time. The client it yields to may hang, or wait for its work
    in a way that the shim does not see. 0: 10 s."""
    priority_level: int = 0
    """While it is on no SM partition, its thread blocks are scheduled before those of clients with a lower level."""


class Region(Protocol):
    """The shared memory of one card, as the daemon uses it."""

    slots: int

    @property
    def attached(self) -> tuple[int, ...]:
        """Slots in use, also those that an earlier daemon left."""
        ...

    def attach(self, slot: int, *, uid: int | None = None, gid: int | None = None, quota_bytes: int = 0) -> None:
        """Give the slot to a client: an empty page that this user may write, and a grant that limits only memory."""
        ...

    def detach(self, slot: int) -> None: ...

    def page(self, slot: int) -> ClientPage: ...

    def periods_us(self, slot: int) -> tuple[int, ...]:
        """Return the length of an iteration for each live process in whose launches one was found."""
        ...

    def served(self, slot: int, seen: int | None) -> tuple[int, tuple[int, ...]]:
        """Return how many requests its programs have reported, and the durations in microseconds of those after the
        first ``seen`` that are not overwritten. None: only the number."""
        ...

    def reclaim(self, slot: int) -> int:
        """Release the bytes of dead processes and return how many."""
        ...

    def write(self, grants: Mapping[int, Grant]) -> None:
        """Write all of them, then wake the clients."""
        ...

    def beat(self, now_ns: int) -> None:
        """Record the daemon's heartbeat."""
        ...
