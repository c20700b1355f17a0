"""Squads: what runs together on one card, on which SM groups, with how much GPU time, and for how long.

A squad lasts 0.5 to 10 ms. A divide policy gets a snapshot of the card's GPU clients and returns the next squad. The
card daemon writes it to shared memory, where the clients' processes read it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, Self, TypeVar, cast

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S, WHOLE_MILLI

Configuration = Literal["unrestricted", "strict", "semi-spatial", "temporal"]

UNGATED_US = 2**64 - 1
"""Unlimited credit."""
MIN_SQUAD_US = 500
MAX_SQUAD_US = 10_000
MAX_GROUPS = 64
"""A mask is one 64-bit word."""
MAX_LEVEL = 4
"""Drivers have one more priority above the default, so a program keeps the order of its own streams."""


@dataclass(frozen=True, slots=True)
class ShareableCard:
    """A card to divide. SMs outside all groups are used by unrestricted work only."""

    groups: int = 15
    sms_per_group: int = 8
    sms: int = 0
    """All SMs of the card; 0: those in groups."""
    memory_bytes: int = 0
    has_priorities: bool = False
    """MPS client priorities are set: thread blocks of clients with priority are scheduled before those of others. Side
    by side, such a client waits for a running block only, not for all queued work."""
    loan_us: int = 2000
    """GPU time that a borrower may have queued, unless its member sets another value. The shim's default."""

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= MAX_GROUPS:
            raise Invalid("groups", f"{self.groups} is not a number of SM groups", f"use 1 to {MAX_GROUPS}")

    def share_milli(self, groups: int) -> int:
        """Fraction of the card's SMs in that number of groups. 0 groups mean no restriction."""
        if groups <= 0:
            return WHOLE_MILLI
        return round(WHOLE_MILLI * groups * self.sms_per_group / (self.sms or self.groups * self.sms_per_group))


@dataclass(frozen=True, slots=True)
class RequestStats:
    """Rate and latency of a client that repeats the same work: requests or iterations."""

    per_s: float = 0.0
    """Requests per second over the last window."""
    solo_per_s: float = 0.0
    """Requests per second alone on the whole card; 0: unknown."""
    work_us: float = 0.0
    """GPU time of one request, alone on the whole card."""
    latency_us: float = 0.0
    """99th percentile over the last window; 0: unknown."""
    count: int = 0
    """Number of requests with a known latency."""
    active_per_s: float = 0.0
    """Requests per second over the time in which the client had work; 0: unknown."""

    @property
    def busy_ratio(self) -> float:
        """Fraction of the time in which requests need the card; 0: unknown."""
        return self.per_s * self.work_us / US_PER_S


@dataclass(frozen=True, slots=True)
class GpuClient:
    """Snapshot of one GPU client."""

    slot: int
    id: str
    weight: float = 1.0
    priority: int = 0
    """Level of its priority class: 0 is normal, higher goes first."""
    slo: Slo | None = None
    curve: tuple[tuple[int, float], ...] = ((WHOLE_MILLI, 1.0),)
    """Thousandths of the SMs and the speed alone with them, relative to all SMs. Ascending."""
    remaining_us: int | None = None
    """Work left, as time alone on the whole card. None: unknown or endless."""
    deadline_in_us: int | None = None
    attained_us: int = 0
    """Service so far, as time of the whole card: a millisecond on half of it counts half."""
    attainment: float | None = None
    """Fraction of its SLO met over the last window. None: unknown, which is neither met nor missed."""
    demand_us: int = 0
    """GPU time that its next kernels will request soon if it is not held."""
    kernel_us: float = 0.0
    """Mean duration of its kernels; 0: unknown."""
    is_idle: bool = False
    idle_us: int = 0
    """Time since it last had work on the card or waiting; 0: it is not idle, or unknown."""
    busy_ratio: float = 0.0
    """Fraction of the last window in which it had work on the card. Unlike its GPU time, this includes the pauses of
    its program within a request."""
    quota_bytes: int = 0
    used_bytes: int = 0
    requests: RequestStats | None = None
    guaranteed_milli: int = 0
    """Guaranteed fraction of the card's SMs, over time and while it has work; 0: none."""
    virtual_card_mask: int = 0
    """SM groups of its virtual card, which it never leaves. 0: it is on the whole card."""
    is_time_sliced: bool = False
    """Its context is time-sliced: its work never runs beside that of others."""
    app: str = ""
    rate_beside: Mapping[str, float] = field(default_factory=dict)
    """Its rate beside each app, with all SMs for both. Unknown apps are absent."""
    neighbour_rates: Mapping[str, float] = field(default_factory=dict)
    """Rate of each app beside it."""
    uses_collectives: bool = False
    """It uses collectives with tasks on other cards, so neither credit nor yielding holds it. SM groups do."""

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise Invalid("weight", f"{self.weight} is negative")

    @property
    def has_latency_slo(self) -> bool:
        return self.slo is not None and self.slo.latency_us is not None

    @property
    def has_slo(self) -> bool:
        return self.slo is not None and self.slo != Slo()


@dataclass(frozen=True, slots=True)
class SquadMember:
    """What one client may do in a squad. Every client is a member; credit 0 stops it."""

    slot: int
    groups: int = 0
    """Mask of SM groups; 0: unrestricted."""
    credit_us: int = UNGATED_US
    """GPU time that it may have on the card in this squad, including work already queued."""
    restricted_us: int = 0
    """Semi-spatial: the mask applies to this much of the credit; 0: to the whole squad."""
    neighbours: int = 0
    """Mask of slots. While all of these are idle, nothing holds it, if it borrows. The shim treats a client with
    unlimited credit, no mask and no neighbours as alone and does not track its work."""
    borrows: bool = False
    loan_us: int = 0
    """GPU time that it may have queued while it borrows; 0: ``ShareableCard.loan_us``."""
    linger_us: int = 0
    """Neighbours count as busy for this long after they were, so that a pause between two requests is not lent."""
    yield_to: int = 0
    """Mask of slots that go first. While one of them has work on the card, the queued work of this client waits between
    two kernels. Its program is not held and its work continues as soon as they pause."""
    level: int = 0
    """Without groups: its thread blocks get free SMs before those of lower levels. Under MPS only."""


@dataclass(frozen=True)
class PolicyMemory:
    """Base class of what a divide policy remembers from squad to squad.

    Each policy declares its own subclass, a frozen dataclass with a default for every field.
    """

    survives_policy_change: ClassVar[bool] = True
    """False: it is dropped when the card gets another policy."""

    def only(self, clients: Collection[str]) -> Self:
        """The same without clients that left. ``clients``: ids of those on the card."""
        return self


Memory = TypeVar("Memory", bound=PolicyMemory)


@dataclass(frozen=True)
class DivideState:
    """Memories of policies by type. The daemon carries them from squad to squad and does not read them.

    A policy reads and writes its own types and passes the others on.
    """

    memories: Mapping[type[PolicyMemory], PolicyMemory] = field(default_factory=dict)

    @classmethod
    def of(cls, *memories: PolicyMemory) -> DivideState:
        return cls().put(*memories)

    def get(self, kind: type[Memory]) -> Memory:
        """The memory of this type; a new one if there is none."""
        found = self.memories.get(kind)
        return kind() if found is None else cast("Memory", found)

    def put(self, *memories: PolicyMemory) -> DivideState:
        return DivideState({**self.memories, **{type(one): one for one in memories}})

    def only(self, clients: Collection[str]) -> DivideState:
        """The same without clients that left."""
        return DivideState({kind: one.only(clients) for kind, one in self.memories.items()})

    def for_new_policy(self) -> DivideState:
        """What is kept when the card gets another policy."""
        return DivideState({kind: one for kind, one in self.memories.items() if one.survives_policy_change})


@dataclass(frozen=True)
class Squad:
    """What runs together until the next decision."""

    members: tuple[SquadMember, ...]
    configuration: Configuration
    length_us: int
    why: str
    state: DivideState = field(default_factory=DivideState)
    """State for the next squad."""

    def of(self, slot: int) -> SquadMember | None:
        return next((member for member in self.members if member.slot == slot), None)


class EffectiveRate(Protocol):
    """Rate of a client with this share of the SMs beside others with theirs; 1: alone on the whole card."""

    def __call__(self, client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]], /) -> float: ...


class DividePolicy(Protocol):
    """A divide policy. ``next_squad`` is a pure function of its arguments."""

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad: ...


def solo_speed(client: GpuClient, share_milli: float) -> float:
    """Speed on the client's curve: linear between points, 0 without SMs."""
    below_at, below = 0.0, 0.0
    for at, speed in client.curve:
        if share_milli <= at:
            return below + (speed - below) * (share_milli - below_at) / (at - below_at) if at > below_at else speed
        below_at, below = at, max(below, speed)
    return below


def sm_need(client: GpuClient) -> float:
    """How much the client loses with half the SMs: 0 nothing, 1 half of its speed."""
    return min(max(2.0 * (1.0 - solo_speed(client, WHOLE_MILLI / 2)), 0.0), 1.0)
