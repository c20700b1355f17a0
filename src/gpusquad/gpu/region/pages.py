"""What the daemon of a card reads and writes, apart from how it lies in shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from gpusquad.model.squad import UNGATED_US


@dataclass(frozen=True, slots=True)
class ClientPage:
    """What the processes of a tenant tell, added up."""

    requested_us: int = 0
    """Predicted GPU time of all that was launched."""
    completed_us: int = 0
    """The part of that which the card has done, predicted in the same way: what is missing is queued."""
    launches: int = 0
    """Kernels, graphs and copies."""
    iterations: int = 0
    in_flight: int = 0
    """Batches queued and not yet known to be done."""
    waiting: int = 0
    """Processes that stand at the gate."""
    used_bytes: int = 0
    peak_bytes: int = 0
    mask_now: int = 0
    """Groups its work goes to now; 0: unrestricted."""
    moves: int = 0
    waited_ns: int = 0
    pids: tuple[int, ...] = ()
    """Of live processes, each in its own namespace."""
    uses_collectives: bool = False
    """One of them takes part in collectives: nothing of it is held, for peers on other cards would spin meanwhile."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a tenant may do. All of GPU time here is cumulative, as the tenant counts what it asked for."""

    squad: int = 0
    quota_bytes: int = 0
    credit_us: int = UNGATED_US
    mask: int = 0
    neighbours: int = 0
    restricted_us: int = 0
    """The mask holds until so much was asked for; 0: for the whole squad."""
    borrows: bool = False
    """While all mates are idle nothing holds it back, but that no more than a loan is queued at a time."""
    loan_us: int = 0
    """How much GPU time that is: the wait of a mate that wakes. 0: the library's default, 2 ms."""
    loan_wait_max_us: int = 0
    """So long it waits when its queue does not move, for it may be waiting for this very launch. 0: 5 ms."""
    virtual_card_mask: int = 0
    """Groups that it never leaves, lent or released: those of its virtual card. 0: the whole card."""
    linger_us: int = 0
    """A mate counts as busy until so long after it was."""
    yield_to: int = 0
    """Slots of mates that go first: while one of them is busy, what this one has queued stands still on the card."""
    yield_point_us: int = 0
    """It can be made to so often: once in so much queued GPU time, and before every longer kernel. 0: 50."""
    yield_max_ms: int = 0
    """So long it stands still at a time; then it goes for a hundredth of that. Whoever goes first may hang, or wait for
    its work by ways that nobody sees. 0: 10 s."""

    priority_level: int = 0
    """While it is on no groups its blocks go before those of lower levels, as soon as SMs are free."""


class Region(Protocol):
    """The shared memory of one card, from the daemon's side."""

    slots: int

    @property
    def attached(self) -> tuple[int, ...]:
        """Slots in use: those of an earlier daemon too, whose tenants run on."""
        ...

    def attach(self, slot: int, *, uid: int | None = None, gid: int | None = None, quota_bytes: int = 0) -> None:
        """Make room for a tenant: an empty page that this user may write, and a grant that holds back nothing but
        memory."""
        ...

    def detach(self, slot: int) -> None: ...

    def page(self, slot: int) -> ClientPage: ...

    def periods_us(self, slot: int) -> tuple[int, ...]:
        """How long an iteration takes, of each live process in whose launches one was found."""
        ...

    def served(self, slot: int, seen: int | None) -> tuple[int, tuple[int, ...]]:
        """How many requests its programs told of so far, and how many microseconds those took that came after ``seen``
        of them, as far as they are still there. None: only how many."""
        ...

    def reclaim(self, slot: int) -> int:
        """Give back what processes held that died. The bytes."""
        ...

    def write(self, grants: Mapping[int, Grant]) -> None:
        """All of them, then let tenants know."""
        ...

    def beat(self, now_ns: int) -> None:
        """The daemon is alive."""
        ...
