"""Squads put together: what every policy has to get right, once.

- A tenant alone is held back by nothing.
- Every tenant is a member. Who has no part in a squad yields to those who have: what it has queued stands still on the
  card while they are busy and fills every pause of theirs. So no part of the card stays empty while somebody wants it,
  and nobody waits for the daemon to go on.
- A kernel runs on the groups that its tenant had when it was queued. So who is held to groups has little queued, and
  where groups may come, nobody has much.
- One that is idle may begin at once, and has its place from the next squad on.
- Whoever is held to groups borrows: while all others are idle it has the whole card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpusquad.model.squad import (
    MAX_LEVEL,
    MAX_SQUAD_US,
    MIN_SQUAD_US,
    UNGATED_US,
    Configuration,
    DivideState,
    GpuClient,
    ShareableCard,
    Squad,
    SquadMember,
)
from gpusquad.policies.divide._levels import levels

AHEAD = 1.5
"""On groups so many squads' work may be queued: nobody runs dry where the next squad is a little late."""
QUEUED_US = 10_000
"""Elsewhere, where groups may come, so much more than a squad's work."""
QUEUED_ALONE_US = 50_000
"""The same, while all others sleep."""
_KERNELS = 8
"""A squad is so many kernels long at least: with fewer, its end is a matter of luck."""
_DEEP_SLEEP_US = 1_000_000
"""Longer than what is queued by whoever runs alone, many times, and than pauses of programs between steps."""
LINGER_US = 150
"""Between two requests that wait for each other a program is busy with neither for so long. That is no time to lend: a
kernel that begins in it is in the way of the second one."""


@dataclass(frozen=True, slots=True)
class ClientAllocation:
    """What one tenant has of a squad."""

    client: GpuClient
    groups: int = 0
    restricted_us: int = 0
    yield_to: int = 0
    """Slots that go first all the same."""
    credit_us: int = UNGATED_US
    level: int = 0
    """Side by side: whose blocks have SMs first."""
    due: float = 1.0
    """What the policy would give it. Nobody is raised for short kernels above one that is due more."""
    minds_ends: bool = False
    """Side by side with others of which the same is said, whoever is nearer its end goes first."""


def single_client_squad(clients: Sequence[GpuClient], state: DivideState) -> Squad | None:
    """The squad of none or one. None: there are several."""
    if len(clients) > 1:
        return None
    members = tuple(SquadMember(client.slot) for client in clients)
    why = f"{clients[0].id} is alone" if clients else "nobody is here"
    return Squad(members, "unrestricted", MAX_SQUAD_US, why, fresh(clients, state))


def fresh(clients: Sequence[GpuClient], state: DivideState, **changes: object) -> DivideState:
    """The state for the next squad, without those who left."""
    here = {client.id for client in clients}
    kept = replace(
        state,
        weights=_of(here, state.weights),
        lags_us=_of(here, state.lags_us),
        waited=_of(here, state.waited),
        groups=_of(here, state.groups),
        levels=_of(here, state.levels),
        beside=_of(here, state.beside),
        seen_us={client.id: client.attained_us for client in clients},
    )
    return replace(kept, **changes) if changes else kept


def squad(
    parts: Sequence[ClientAllocation],
    clients: Sequence[GpuClient],
    card: ShareableCard,
    configuration: Configuration,
    length_us: int,
    why: str,
    state: DivideState,
) -> Squad:
    """``parts``: those who have one; whoever else is awake yields to them."""
    parts = _leveled(parts, state) if configuration == "unrestricted" else parts
    slots_given = slots(part.client.slot for part in parts)
    given = {part.client.slot: _minding_sleepers(part, clients, slots_given) for part in parts}
    credit_us = max((part.credit_us for part in parts), default=UNGATED_US)
    asleep = state.levels if configuration == "unrestricted" else {}
    rest = {
        one.slot: ClientAllocation(one, level=asleep.get(one.id, 0), credit_us=credit_us)
        if one.is_idle
        else ClientAllocation(one, yield_to=slots(given), credit_us=credit_us)
        for one in clients
        if one.slot not in given
    }
    members = [_member(one, (given | rest)[one.slot], clients, card) for one in clients]
    beside = configuration == "unrestricted" and len(parts) > 1
    members = _before_ranks(_services_first(members, clients, beside), clients)
    masks = {part.client.id: part.groups for part in parts if part.groups}
    waited = {
        client.id: 0 if client.is_idle or client.slot in given else state.waited.get(client.id, 0) + 1
        for client in clients
    }
    groups = {**state.groups, **masks} if masks else state.groups
    after = fresh(clients, replace(state, groups=groups), waited=waited, configuration=configuration)
    if beside:
        raised = {part.client.id: part.level for part in parts if not part.client.has_latency_slo}
        after = replace(after, levels={**after.levels, **raised})
    return Squad(members, configuration, length_us, _with_raised(why, parts), after)


def _leveled(parts: Sequence[ClientAllocation], state: DivideState) -> list[ClientAllocation]:
    """Of one alone what it had: the others may only nap, and a stream that changes its priority is moved."""
    calm = [part.client for part in parts if not part.client.has_latency_slo]
    minds_ends = all(part.minds_ends for part in parts)
    found = levels(calm, state.levels, minds_ends) if len(calm) > 1 else state.levels
    leveled = [replace(part, level=found.get(part.client.id, 0)) for part in parts]
    if any(one.level > other.level and one.due < other.due for one in leveled for other in leveled):
        return [replace(part, level=0) for part in parts]
    return leveled


def _services_first(
    members: Sequence[SquadMember], clients: Sequence[GpuClient], beside: bool
) -> Sequence[SquadMember]:
    """Whoever has a latency target goes before those that it runs beside, and before all that are raised; asleep too,
    for it wakes without asking."""
    first = slots(one.slot for one in clients if one.has_latency_slo)
    if not first or not (beside or any(one.level for one in members)):
        return members
    return [
        replace(one, level=MAX_LEVEL if first >> one.slot & 1 else min(one.level, MAX_LEVEL - 1)) for one in members
    ]


def _with_raised(why: str, parts: Sequence[ClientAllocation]) -> str:
    """Said once, where a squad was made of another."""
    names = [part.client.id for part in parts if part.level]
    words = f"; blocks of {' and '.join(names)} go first" if names else ""
    return why if words in why else why + words


def _before_ranks(members: Sequence[SquadMember], clients: Sequence[GpuClient]) -> tuple[SquadMember, ...]:
    """One that meets peers on other cards is not held. Those that it should yield to have SMs before it at least."""
    ranks = slots(one.slot for one in clients if one.uses_collectives)
    first = 0
    for member in members:
        first |= member.yield_to if ranks >> member.slot & 1 else 0
    return tuple(_beside_ranks(one, first, ranks) for one in members)


def _beside_ranks(member: SquadMember, first: int, ranks: int) -> SquadMember:
    if first >> member.slot & 1:
        return replace(member, level=MAX_LEVEL)
    return replace(member, level=0) if member.yield_to and ranks >> member.slot & 1 else member


def _minding_sleepers(part: ClientAllocation, clients: Sequence[GpuClient], given: int) -> ClientAllocation:
    """Whoever is awake alone lets others of whom nothing was said go first when they wake, until something is: what it
    queues meanwhile has places to stand still in no other way."""
    others = [one for one in clients if one is not part.client]
    if part.client.is_idle or not all(one.is_idle for one in others):
        return part
    light = slots(one.slot for one in others if not _sleeps_deeply(one))
    return replace(part, yield_to=part.yield_to | light & ~given)


def _sleeps_deeply(client: GpuClient) -> bool:
    """Whether it may find a queue that runs dry beside it when it wakes, once. Places to stand still are not free: on
    an H200 a training job whose neighbour had ended lost 1 to 4 % of its speed to them."""
    return not client.has_latency_slo and client.idle_us >= _DEEP_SLEEP_US


def length_us(clients: Iterable[GpuClient], default_us: int) -> int:
    """Long enough for some kernels of each."""
    longest_us = max((client.kernel_us for client in clients if not client.is_idle), default=0.0)
    return min(max(default_us, int(_KERNELS * longest_us), MIN_SQUAD_US), MAX_SQUAD_US)


def ahead_us(length_us: int) -> int:
    """What may be queued on groups."""
    return int(AHEAD * length_us)


def queued_us(awake: int, length_us: int) -> int:
    """What may be queued where groups may come, with so many awake."""
    return length_us + (QUEUED_US if awake > 1 else QUEUED_ALONE_US)


def slots(of: Iterable[int]) -> int:
    """As a mask."""
    mask = 0
    for slot in of:
        mask |= 1 << slot
    return mask


def _member(
    client: GpuClient, part: ClientAllocation, clients: Sequence[GpuClient], card: ShareableCard
) -> SquadMember:
    own = 1 << client.slot
    neighbours = slots(one.slot for one in clients) & ~own
    yield_to = part.yield_to & ~own
    plain = SquadMember(
        client.slot, neighbours=neighbours, yield_to=yield_to, linger_us=_linger_us(yield_to, clients),
        credit_us=part.credit_us, level=part.level,
    )  # fmt: skip
    if not part.groups:
        return plain
    return replace(plain, groups=part.groups, restricted_us=part.restricted_us, borrows=True, loan_us=card.loan_us)


def _linger_us(yield_to: int, clients: Sequence[GpuClient]) -> int:
    return LINGER_US if any(one.has_latency_slo and yield_to >> one.slot & 1 for one in clients) else 0


def _of(here: set[str], values: Mapping) -> dict:
    return {name: value for name, value in values.items() if name in here}
