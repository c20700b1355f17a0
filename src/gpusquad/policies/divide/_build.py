"""Squads put together: what every policy has to get right, once.

- A tenant alone is held back by nothing.
- Every tenant is a member. One that is idle may begin at once and is held from the next squad on.
- Whoever is held borrows: while all its mates are idle, nothing holds it. That is decided where it launches, without
  waiting for anybody, so no part of the card stays empty while somebody wants it. Mates are all others; of one without
  credit only those who may run now, for two that stand at their gates would else wait for each other.
- The exception is a neighbour with a latency target: who would queue more than can be taken back in time does not
  borrow, and lives on small credits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpusquad.model.squad import (
    LONGEST_SQUAD_US,
    SHORTEST_SQUAD_US,
    CardFacts,
    Configuration,
    Member,
    Squad,
    State,
    Tenant,
)

AHEAD = 1.5
"""Credits reach this part of a squad's length, so that nobody runs dry where the next squad is a little late."""
TURN_AHEAD_US = 200
"""By turns, what is left over runs beside the next one, which is what turns are to avoid: just enough to hand over."""
_KERNELS = 8
"""A squad is so many kernels long at least: with fewer, its end is a matter of luck."""
_OF_TARGET = 0.125
"""A squad is this part of the shortest latency target at most, for its end is when more can be taken back."""
TAKE_BACK = 0.1
"""What others may have queued ahead of a tenant with a latency target, as a part of the target."""
_LEAST_CREDIT_US = 250
LINGER_US = 100
"""Between two kernels of a request its program may think for so long; that is no time to lend."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one tenant that is awake gets."""

    tenant: Tenant
    credit_us: int
    groups: int = 0
    restricted_us: int = 0


def nobody_to_share_with(tenants: Sequence[Tenant], state: State) -> Squad | None:
    """The squad of none or one. None: there are several."""
    if len(tenants) > 1:
        return None
    members = tuple(Member(tenant.slot) for tenant in tenants)
    why = f"{tenants[0].id} is alone" if tenants else "nobody is here"
    return Squad(members, "unrestricted", LONGEST_SQUAD_US, why, fresh(tenants, state))


def fresh(tenants: Sequence[Tenant], state: State, **changes: object) -> State:
    """The state for the next squad, without those who left."""
    here = {tenant.id for tenant in tenants}
    kept = replace(
        state,
        weights=_of(here, state.weights),
        lags_us=_of(here, state.lags_us),
        waited=_of(here, state.waited),
        groups=_of(here, state.groups),
        seen_us={tenant.id: tenant.attained_us for tenant in tenants},
    )
    return replace(kept, **changes) if changes else kept


def squad(
    parts: Sequence[Part],
    tenants: Sequence[Tenant],
    card: CardFacts,
    configuration: Configuration,
    length_us: int,
    why: str,
    state: State,
) -> Squad:
    """``parts``: those who have something; whoever else is awake has no credit now, whoever is idle may begin."""
    given = {
        part.tenant.slot: replace(part, credit_us=small_credit_us(part.tenant, tenants, part.credit_us))
        for part in parts
    }
    everybody = _bits(tenant.slot for tenant in tenants)
    running = _bits(tenant.slot for tenant in tenants if tenant.is_idle or _serves(given.get(tenant.slot)))
    members = tuple(
        _member(one, given.get(one.slot), tenants, everybody if running >> one.slot & 1 else running, card, length_us)
        for one in tenants
    )
    masks = {part.tenant.id: part.groups for part in parts if part.groups}
    waited = {
        tenant.id: 0 if tenant.is_idle or _serves(given.get(tenant.slot)) else state.waited.get(tenant.id, 0) + 1
        for tenant in tenants
    }
    groups = {**state.groups, **masks} if masks else state.groups
    after = fresh(tenants, replace(state, groups=groups), waited=waited, configuration=configuration)
    return Squad(members, configuration, length_us, why, after)


def length_us(tenants: Iterable[Tenant], card: CardFacts, default_us: int) -> int:
    """Long enough for some kernels of each, short against the latency targets."""
    tenants = list(tenants)
    longest_us = max((tenant.kernel_us for tenant in tenants if not tenant.is_idle), default=0.0)
    wanted_us = max(default_us, int(_KERNELS * longest_us))
    targets_us = [us for tenant in tenants if (us := _target_us(tenant)) is not None]
    if targets_us:
        wanted_us = min(wanted_us, int(_OF_TARGET * min(targets_us)))
        if _live_on_credits(tenants):
            wanted_us = min(wanted_us, int((take_back_us(tenants) or wanted_us) / AHEAD))
    return min(max(wanted_us, SHORTEST_SQUAD_US), LONGEST_SQUAD_US)


def _live_on_credits(tenants: Iterable[Tenant]) -> bool:
    """Not even while those with targets sleep do they borrow: squads must end before their small credits do."""
    others = [tenant for tenant in tenants if not tenant.is_idle and not tenant.has_latency_goal]
    return len(others) > 1 or any(not may_borrow(tenant, tenants) for tenant in others)


def small_credit_us(tenant: Tenant, tenants: Sequence[Tenant], credit_us: int) -> int:
    """The credit, or less where a tenant with a latency target is near: what is queued cannot be taken back."""
    if tenant.has_latency_goal:
        return credit_us
    most_us = take_back_us(tenants)
    return credit_us if most_us is None else min(credit_us, most_us)


def take_back_us(tenants: Iterable[Tenant]) -> int | None:
    """What those without a latency target may have queued beside those with one. None: nobody has one."""
    targets_us = [us for tenant in tenants if (us := _target_us(tenant)) is not None]
    return max(_LEAST_CREDIT_US, int(TAKE_BACK * min(targets_us))) if targets_us else None


def may_borrow(tenant: Tenant, mates: Iterable[Tenant]) -> bool:
    """Ungated while they are idle: a kernel of it must be over soon enough when one of them wakes."""
    limits_us = take_back_us(mate for mate in mates if mate.slot != tenant.slot)
    if limits_us is None or tenant.has_latency_goal:
        return True
    return 0 < tenant.kernel_us <= limits_us


def loan_us(tenant: Tenant, mates: Iterable[Tenant], card: CardFacts) -> int:
    """What it may have queued while it borrows: what can be waited for when a mate with a latency target wakes. Where
    that one's work passes what is queued, it waits for a kernel only."""
    limits_us = take_back_us(mate for mate in mates if mate.slot != tenant.slot)
    if limits_us is None or tenant.has_latency_goal or card.has_priorities:
        return card.loan_us
    return min(card.loan_us, limits_us)


def _member(
    tenant: Tenant, part: Part | None, tenants: Sequence[Tenant], slots: int, card: CardFacts, length_us: int
) -> Member:
    mates = slots & ~(1 << tenant.slot)
    borrows = bool(mates) and may_borrow(tenant, tenants)
    plain = Member(tenant.slot, mates=mates, borrows=borrows, linger_us=_linger_us(tenant, tenants))
    plain = replace(plain, loan_us=loan_us(tenant, tenants, card) if borrows else 0)
    if part is not None:
        return replace(plain, groups=part.groups, credit_us=part.credit_us, restricted_us=part.restricted_us)
    if not tenant.is_idle:
        return replace(plain, credit_us=0)
    if tenant.has_latency_goal:
        return Member(tenant.slot, mates=mates)  # the first kernel of a request must not wait for anybody
    return replace(plain, credit_us=small_credit_us(tenant, tenants, length_us))


def _linger_us(tenant: Tenant, tenants: Sequence[Tenant]) -> int:
    return LINGER_US if any(other.has_latency_goal for other in tenants if other is not tenant) else 0


def _serves(part: Part | None) -> bool:
    return part is not None and part.credit_us > 0


def _target_us(tenant: Tenant) -> int | None:
    return tenant.slo.latency_us if tenant.slo is not None else None


def _of(here: set[str], values: Mapping) -> dict:
    return {name: value for name, value in values.items() if name in here}


def _bits(slots: Iterable[int]) -> int:
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask
