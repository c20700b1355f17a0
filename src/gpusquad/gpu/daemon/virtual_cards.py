"""A card divided in virtual cards first, and each of these among its tenants by the policy.

To the policy a virtual card is a card with fewer groups. Nobody on it is a mate of anybody on another, so nothing is
lent across, and what a virtual card's SMs do does not depend on the others. L2 and memory bandwidth stay shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from gpusquad.model.squad import (
    DividePolicy,
    DivideState,
    EffectiveRate,
    GpuClient,
    ShareableCard,
    Squad,
    SquadMember,
    solo_speed,
)
from gpusquad.model.units import WHOLE_MILLI

WHOLE = 0
"""In the place of a mask of groups: not on a virtual card."""


class VirtualCardPolicy:
    """A policy for cards some of whose tenants are confined to virtual cards; ``make`` makes one for each of these."""

    def __init__(self, make: Callable[[], DividePolicy]) -> None:
        self._make = make
        self._policies: dict[int, DividePolicy] = {WHOLE: make()}
        self.states: dict[int, DivideState] = {}
        """What the policy remembers of each virtual card, by its groups."""

    def next_squad(
        self, tenants: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        by_part: dict[int, list[GpuClient]] = {}
        for tenant in tenants:
            by_part.setdefault(tenant.within, []).append(tenant)
        if set(by_part) <= {WHOLE}:
            self.states.clear()
            return self._policies[WHOLE].next_squad(tenants, card, effective, state)
        self.states = {within: self.states.get(within, DivideState()) for within in by_part}
        self._policies = {within: self._policies.get(within) or self._make() for within in {WHOLE, *by_part}}
        return _together([self._of_part(within, by_part[within], card, effective) for within in sorted(by_part)], state)

    def _of_part(
        self, within: int, tenants: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate
    ) -> Squad:
        own = _as_card(within, card)
        scaled = [_as_on(tenant, card.share_milli(own.groups)) if within else tenant for tenant in tenants]
        squad = self._policies[within].next_squad(scaled, own, effective, self.states[within])
        self.states[within] = squad.state
        return replace(squad, members=tuple(_confined(member, within) for member in squad.members))


def _as_card(within: int, card: ShareableCard) -> ShareableCard:
    return replace(card, groups=within.bit_count(), sms=0, memory_bytes=0) if within else card


def _as_on(tenant: GpuClient, part_milli: int) -> GpuClient:
    """Its curve over parts of the virtual card, where 1 is its speed with all of that."""
    whole = solo_speed(tenant, part_milli)
    if whole <= 0:
        return tenant
    inside = [(at * WHOLE_MILLI // part_milli, speed / whole) for at, speed in tenant.curve if at < part_milli]
    seen = tenant.requests
    if seen is not None:
        seen = replace(seen, solo_per_s=seen.solo_per_s * whole, work_us=seen.work_us / whole)
    return replace(tenant, curve=(*(point for point in inside if point[0] > 0), (WHOLE_MILLI, 1.0)), requests=seen)


def _confined(member: SquadMember, within: int) -> SquadMember:
    """The policy counted the groups of the virtual card from 0. No restriction stays none: who writes the grant says
    within what. Priorities are for work on no partition, and a virtual card is one."""
    if not within:
        return member
    groups = sum(bit for place, bit in enumerate(_bits(within)) if member.groups >> place & 1)
    return replace(member, groups=groups, level=0)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest
        mask ^= lowest


def _together(squads: Sequence[Squad], state: DivideState) -> Squad:
    return Squad(
        members=tuple(member for squad in squads for member in squad.members),
        configuration="strict",
        length_us=min(squad.length_us for squad in squads),
        why="; ".join(squad.why for squad in squads),
        state=state,
    )
