"""Builds squads from allocations. Every policy relies on these rules:

- Nothing holds a client that is alone.
- Every client is a member. A client without an allocation yields to those that have one: its queued work waits on the
  card while they are busy and fills all their pauses. So the card is never idle while a client has work, and no client
  waits for the daemon.
- A kernel runs on the groups that its client had when it was queued. So a client with groups may queue little, and
  where groups may follow, no client may queue much.
- An idle client may start at once and is allocated from the next squad on.
- A client with groups borrows: while all others are idle it uses the whole card.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from gpusquad.model.squad import (
    MAX_LEVEL,
    MAX_SQUAD_US,
    MIN_SQUAD_US,
    UNGATED_US,
    Configuration,
    DivideState,
    GpuClient,
    PolicyMemory,
    ShareableCard,
    Squad,
    SquadMember,
)
from gpusquad.policies.divide._levels import levels

AHEAD = 1.5
"""Squads of work that may be queued on groups, so that no client runs dry if the next squad is a little late."""
QUEUED_US = 10_000
"""Without groups: work that may be queued in addition to one squad, because groups may follow."""
QUEUED_ALONE_US = 50_000
"""The same while all other clients are idle."""
_KERNELS = 8
"""Minimum length of a squad in kernels. With fewer, its end is a matter of luck."""
_LONG_IDLE_US = 1_000_000
"""Many times longer than the queued work of a client alone and than the pauses of programs between steps."""
LINGER_US = 150
"""Pause of a program between two requests that depend on each other. It is not lent: a kernel that starts in it would
delay the second request."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ClientAllocation:
    """What one client gets in a squad."""

    client: GpuClient
    groups: int = 0
    restricted_us: int = 0
    yield_to: int = 0
    """Slots that go first although this client has an allocation."""
    credit_us: int = UNGATED_US
    level: int = 0
    """Side by side: priority level of its thread blocks."""
    due: float = 1.0
    """What the policy would give it. Short kernels never raise a client above one with a higher due."""
    by_remaining: bool = False
    """If all clients side by side have this set, the one nearer its end gets the higher level."""


@dataclass(frozen=True)
class SquadHistory(PolicyMemory):
    """What the builder records of the last squads, for all policies."""

    seen_us: Mapping[str, int] = field(default_factory=dict)
    """Service of each client when the last squad was built."""
    waited: Mapping[str, int] = field(default_factory=dict)
    """Consecutive squads in which a client had work and no allocation."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Masks of the last squad with groups."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels of the clients that last ran side by side."""
    configuration: str = ""

    def only(self, clients: Collection[str]) -> Self:
        return replace(
            self,
            waited=of_clients(clients, self.waited),
            groups=of_clients(clients, self.groups),
            levels=of_clients(clients, self.levels),
        )


def single_client_squad(clients: Sequence[GpuClient], state: DivideState) -> Squad | None:
    """The squad of at most one client. None: there are several."""
    if len(clients) > 1:
        return None
    members = tuple(SquadMember(client.slot) for client in clients)
    why = f"{clients[0].id} is alone" if clients else "no clients"
    return Squad(members, "unrestricted", MAX_SQUAD_US, why, state_after(clients, state))


def state_after(
    clients: Sequence[GpuClient], state: DivideState, *memories: PolicyMemory, **history: Any
) -> DivideState:
    """State for the next squad: without clients that left, with these memories and these fields of the history."""
    kept = state.only({client.id for client in clients})
    seen_us = {client.id: client.attained_us for client in clients}
    return kept.put(replace(kept.get(SquadHistory), seen_us=seen_us, **history), *memories)


def squad(
    allocations: Sequence[ClientAllocation],
    clients: Sequence[GpuClient],
    card: ShareableCard,
    configuration: Configuration,
    length_us: int,
    why: str,
    state: DivideState,
) -> Squad:
    """Active clients without an allocation yield to those that have one."""
    history = state.get(SquadHistory)
    allocations = _with_levels(allocations, history) if configuration == "unrestricted" else allocations
    slots_given = slots(one.client.slot for one in allocations)
    given = {one.client.slot: _yielding_to_wakers(one, clients, slots_given) for one in allocations}
    credit_us = max((one.credit_us for one in allocations), default=UNGATED_US)
    idle_levels = history.levels if configuration == "unrestricted" else {}
    rest = {
        one.slot: ClientAllocation(one, level=idle_levels.get(one.id, 0), credit_us=credit_us)
        if one.is_idle
        else ClientAllocation(one, yield_to=slots(given), credit_us=credit_us)
        for one in clients
        if one.slot not in given
    }
    members = [_member(one, (given | rest)[one.slot], clients, card) for one in clients]
    are_beside = configuration == "unrestricted" and len(allocations) > 1
    members = _for_collectives(_services_first(members, clients, are_beside), clients)
    masks = {one.client.id: one.groups for one in allocations if one.groups}
    waited = {
        client.id: 0 if client.is_idle or client.slot in given else history.waited.get(client.id, 0) + 1
        for client in clients
    }
    groups = {**history.groups, **masks} if masks else history.groups
    before = state.put(replace(history, groups=groups))
    after = state_after(clients, before, waited=waited, configuration=configuration)
    if are_beside:
        raised = {one.client.id: one.level for one in allocations if not one.client.has_latency_slo}
        now = after.get(SquadHistory)
        after = after.put(replace(now, levels={**now.levels, **raised}))
    return Squad(members, configuration, length_us, _with_raised(why, allocations), after)


def _with_levels(allocations: Sequence[ClientAllocation], history: SquadHistory) -> list[ClientAllocation]:
    """A single client keeps its level: the others may be idle only briefly, and a stream that changes its priority is
    moved."""
    ranked = [one.client for one in allocations if not one.client.has_latency_slo]
    by_remaining = all(one.by_remaining for one in allocations)
    found = levels(ranked, history.levels, by_remaining) if len(ranked) > 1 else history.levels
    leveled = [replace(one, level=found.get(one.client.id, 0)) for one in allocations]
    if any(one.level > other.level and one.due < other.due for one in leveled for other in leveled):
        return [replace(one, level=0) for one in allocations]
    return leveled


def _services_first(
    members: Sequence[SquadMember], clients: Sequence[GpuClient], are_beside: bool
) -> Sequence[SquadMember]:
    """A client with a latency SLO gets the highest level, also while idle, because it may wake at any time."""
    first = slots(one.slot for one in clients if one.has_latency_slo)
    if not first or not (are_beside or any(one.level for one in members)):
        return members
    return [
        replace(one, level=MAX_LEVEL if first >> one.slot & 1 else min(one.level, MAX_LEVEL - 1)) for one in members
    ]


def _with_raised(why: str, allocations: Sequence[ClientAllocation]) -> str:
    """Added once, where a squad was built from another."""
    names = [one.client.id for one in allocations if one.level]
    words = f"; blocks of {' and '.join(names)} go first" if names else ""
    return why if words in why else why + words


def _for_collectives(members: Sequence[SquadMember], clients: Sequence[GpuClient]) -> tuple[SquadMember, ...]:
    """A client that uses collectives is not held. The clients it should yield to get SMs before it instead."""
    collectives = slots(one.slot for one in clients if one.uses_collectives)
    first = 0
    for member in members:
        first |= member.yield_to if collectives >> member.slot & 1 else 0
    return tuple(_beside_collectives(one, first, collectives) for one in members)


def _beside_collectives(member: SquadMember, first: int, collectives: int) -> SquadMember:
    if first >> member.slot & 1:
        return replace(member, level=MAX_LEVEL)
    return replace(member, level=0) if member.yield_to and collectives >> member.slot & 1 else member


def _yielding_to_wakers(one: ClientAllocation, clients: Sequence[GpuClient], given: int) -> ClientAllocation:
    """The only active client yields to idle ones without an allocation, until the next squad: its queued work can wait
    on the card only if it has yield points."""
    others = [other for other in clients if other is not one.client]
    if one.client.is_idle or not all(other.is_idle for other in others):
        return one
    wakers = slots(other.slot for other in others if not _is_idle_for_long(other))
    return replace(one, yield_to=one.yield_to | wakers & ~given)


def _is_idle_for_long(client: GpuClient) -> bool:
    """Whether it may find a queue that drains beside it once, when it wakes. Yield points are not free: on an H200 they
    cost a training job whose neighbour had ended 1 to 4 % of its speed."""
    return not client.has_latency_slo and client.idle_us >= _LONG_IDLE_US


def length_us(clients: Iterable[GpuClient], default_us: int) -> int:
    """Long enough for some kernels of each client."""
    longest_us = max((client.kernel_us for client in clients if not client.is_idle), default=0.0)
    return min(max(default_us, int(_KERNELS * longest_us), MIN_SQUAD_US), MAX_SQUAD_US)


def ahead_us(length_us: int) -> int:
    """Work that may be queued on groups."""
    return int(AHEAD * length_us)


def queued_us(active: int, length_us: int) -> int:
    """Work that may be queued where groups may follow. ``active``: number of active clients."""
    return length_us + (QUEUED_US if active > 1 else QUEUED_ALONE_US)


def slots(of: Iterable[int]) -> int:
    """Mask of slots."""
    mask = 0
    for slot in of:
        mask |= 1 << slot
    return mask


def of_clients(clients: Collection[str], values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if name in clients}


def _member(
    client: GpuClient, allocation: ClientAllocation, clients: Sequence[GpuClient], card: ShareableCard
) -> SquadMember:
    own = 1 << client.slot
    neighbours = slots(one.slot for one in clients) & ~own
    yield_to = allocation.yield_to & ~own
    plain = SquadMember(
        client.slot, neighbours=neighbours, yield_to=yield_to, linger_us=_linger_us(yield_to, clients),
        credit_us=allocation.credit_us, level=allocation.level,
    )  # fmt: skip
    if not allocation.groups:
        return plain
    return replace(
        plain, groups=allocation.groups, restricted_us=allocation.restricted_us, borrows=True, loan_us=card.loan_us
    )


def _linger_us(yield_to: int, clients: Sequence[GpuClient]) -> int:
    return LINGER_US if any(one.has_latency_slo and yield_to >> one.slot & 1 for one in clients) else 0
