"""Squads: who runs together on one card, on which SM groups, with how much GPU time, and for how long.

A squad lasts half a millisecond to ten. Whoever divides a card is given a snapshot of its tenants and answers with the
next squad; the card's daemon writes it down where the tenants' processes see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S, WHOLE_MILLI

Configuration = Literal["unrestricted", "strict", "semi-spatial", "temporal"]

UNGATED_US = 2**64 - 1
"""A credit that never runs out."""
MIN_SQUAD_US = 500
MAX_SQUAD_US = 10_000
MAX_GROUPS = 64
"""A mask is one 64-bit word."""
MAX_LEVEL = 4
"""Drivers have one priority more above the usual one: a program whose streams have an order of their own keeps it."""


@dataclass(frozen=True, slots=True)
class ShareableCard:
    """What can be divided. SMs that no group holds are used by unrestricted work alone."""

    groups: int = 15
    sms_per_group: int = 8
    sms: int = 0
    """All of them; 0: those in groups."""
    memory_bytes: int = 0
    has_priorities: bool = False
    """The driver lets blocks of important tenants pass those of others (client priorities of MPS are set), so that
    side by side they wait for a block that runs, and not for all that is queued."""
    loan_us: int = 2000
    """Whoever borrows has no more than this queued at a time, unless its member says otherwise: the shim's default."""

    def __post_init__(self) -> None:
        if not 1 <= self.groups <= MAX_GROUPS:
            raise Invalid("groups", f"{self.groups} is not a number of SM groups", f"use 1 to {MAX_GROUPS}")

    def share_milli(self, groups: int) -> int:
        """So many groups as a part of the card's SMs. No group at all: no restriction."""
        if groups <= 0:
            return WHOLE_MILLI
        return round(WHOLE_MILLI * groups * self.sms_per_group / (self.sms or self.groups * self.sms_per_group))


@dataclass(frozen=True, slots=True)
class RequestStats:
    """A tenant that does the same thing again and again: answers requests, or iterates."""

    per_s: float = 0.0
    """Of late."""
    solo_per_s: float = 0.0
    """What it would do alone on the whole card; 0: not known."""
    work_us: float = 0.0
    """GPU time of one, alone on the whole card."""
    latency_us: float = 0.0
    """The 99th percentile of late; 0: not known."""
    count: int = 0
    """Of those whose latency is known."""
    active_per_s: float = 0.0
    """Of late, in the time in which it had something to do; 0: not known."""

    @property
    def busy_ratio(self) -> float:
        """The part of the time in which they need the card; 0: not known."""
        return self.per_s * self.work_us / US_PER_S


@dataclass(frozen=True, slots=True)
class GpuClient:
    """One tenant of a card at this moment."""

    slot: int
    id: str
    weight: float = 1.0
    priority: int = 0
    """The level of its class: 0 is normal, higher goes first."""
    slo: Slo | None = None
    curve: tuple[tuple[int, float], ...] = ((WHOLE_MILLI, 1.0),)
    """Thousandths of the SMs, and the speed alone with them over that with all; the fewest first."""
    remaining_us: int | None = None
    """Work still to do, as time alone on the whole card. None: not known, or without end."""
    deadline_in_us: int | None = None
    attained_us: int = 0
    """Service so far, as time of the whole card: a millisecond on half of it counts half."""
    attainment: float = 1.0
    """How far its goals were met over the last window: 1 is fully."""
    demand_us: int = 0
    """GPU time that its next kernels will ask for soon, were it not held."""
    kernel_us: float = 0.0
    """How long a kernel of it takes; 0: not known."""
    is_idle: bool = False
    idle_us: int = 0
    """For so long nothing of it was on the card, or about to be; 0: it is not idle, or nobody counts."""
    busy_ratio: float = 0.0
    """The part of the time in which something of it was on the card, of late: pauses of its program within a request
    included, which its GPU time is not."""
    quota_bytes: int = 0
    used_bytes: int = 0
    requests: RequestStats | None = None
    guaranteed_milli: int = 0
    """The part of the card's SMs that it was promised, over time and while it wants it; 0: none."""
    virtual_card_mask: int = 0
    """A mask of the SM groups that it never leaves: those of its virtual card. 0: it is on the whole card."""
    is_time_sliced: bool = False
    """Its context takes turns with all others on the card: nothing of it runs beside anything of theirs."""
    app: str = ""
    """What it runs, by the name that others may know it by."""
    rate_beside: Mapping[str, float] = field(default_factory=dict)
    """Its speed beside each app, over that alone, with all SMs for both. What is not there is not known."""
    neighbour_rates: Mapping[str, float] = field(default_factory=dict)
    """And that of each app beside it."""
    uses_collectives: bool = False
    """It takes part in collectives with tasks on other cards, so neither credits nor yielding hold it; groups do."""

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
    """What one tenant may do in a squad. Every tenant is a member: one that may do nothing has no credit."""

    slot: int
    groups: int = 0
    """A mask of SM groups; 0: unrestricted."""
    credit_us: int = UNGATED_US
    """GPU time that it may have on the card in this squad, what is queued already included."""
    restricted_us: int = 0
    """Semi-spatial: the mask holds for so much of the credit; 0: for all of the squad."""
    neighbours: int = 0
    """A mask of slots: while all of these are idle it is held back by nothing, if it borrows. Whoever has no credit to
    watch, no mask and no mates is taken to be alone: what it does is not followed."""
    borrows: bool = False
    loan_us: int = 0
    """While it borrows it has no more than this queued at a time; 0: as the card's facts say."""
    linger_us: int = 0
    """Mates count as busy until so long after they were, so that a pause between two requests is not lent out."""
    yield_to: int = 0
    """A mask of slots that go first: while one of them has something on the card, what this one has queued stands still
    between two kernels. Its program is not held, and goes on the moment they pause."""
    level: int = 0
    """Without groups: its blocks have SMs before those of lower levels, as soon as some are free. Under MPS only."""


@dataclass(frozen=True)
class DivideState:
    """What a policy remembers from squad to squad. Each policy uses what it needs and passes the rest on."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Learned weights of tenants with goals."""
    lags_us: Mapping[str, float] = field(default_factory=dict)
    """Service that a tenant is behind its due (below 0: ahead)."""
    seen_us: Mapping[str, int] = field(default_factory=dict)
    """Service of each when the last squad was made."""
    dues: Mapping[str, float] = field(default_factory=dict)
    """The part of all service that was due to each in the last squad."""
    waited: Mapping[str, int] = field(default_factory=dict)
    """Squads in a row in which a tenant wanted the card and had no part in the squad."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Masks of the last squad that had any."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Of those who last ran side by side."""
    beside: Mapping[str, int] = field(default_factory=dict)
    """Tenants with a latency target that others run beside instead of yielding: above 0. Below 0: that was tried, did
    not do, and is not tried again for so many squads."""
    configuration: str = ""
    found_for: tuple[str, ...] = ()
    """Those who were awake when a policy that searches last did so, with their slots; and how many squads ago."""
    found_ago: int = 0
    found: str = ""
    """The configuration that it found."""
    first: int = 0
    """Slots that went first in it."""
    chosen: str = ""
    """What a policy that chooses among others has chosen."""
    wanted: str = ""
    """What it would choose now, and for how many squads in a row."""
    wanted_for: int = 0


@dataclass(frozen=True)
class Squad:
    """Who runs together, and for how long."""

    members: tuple[SquadMember, ...]
    configuration: Configuration
    length_us: int
    why: str
    state: DivideState = field(default_factory=DivideState)
    """To be handed in for the next one."""

    def of(self, slot: int) -> SquadMember | None:
        return next((member for member in self.members if member.slot == slot), None)


class EffectiveRate(Protocol):
    """How fast a tenant runs with this share of the SMs among others with theirs; 1: alone on the whole card."""

    def __call__(self, client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]], /) -> float: ...


class DividePolicy(Protocol):
    """A policy: a pure function of what it is given."""

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad: ...


def solo_speed(client: GpuClient, share_milli: float) -> float:
    """On the tenant's curve: straight between points, and through nothing at no SMs."""
    below_at, below = 0.0, 0.0
    for at, speed in client.curve:
        if share_milli <= at:
            return below + (speed - below) * (share_milli - below_at) / (at - below_at) if at > below_at else speed
        below_at, below = at, max(below, speed)
    return below


def sm_need(client: GpuClient) -> float:
    """What half the SMs cost it: 0 nothing, 1 half its speed."""
    return min(max(2.0 * (1.0 - solo_speed(client, WHOLE_MILLI / 2)), 0.0), 1.0)
