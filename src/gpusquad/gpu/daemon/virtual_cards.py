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
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        by_part: dict[int, list[GpuClient]] = {}
        for client in clients:
            by_part.setdefault(client.virtual_card_mask, []).append(client)
        if set(by_part) <= {WHOLE}:
            self.states.clear()
            return self._policies[WHOLE].next_squad(clients, card, effective, state)
        self.states = {mask: self.states.get(mask, DivideState()) for mask in by_part}
        self._policies = {mask: self._policies.get(mask) or self._make() for mask in {WHOLE, *by_part}}
        return _together([self._of_part(mask, by_part[mask], card, effective) for mask in sorted(by_part)], state)

    def _of_part(self, mask: int, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate) -> Squad:
        own = _as_card(mask, card)
        scaled = [_as_on(client, card.share_milli(own.groups)) if mask else client for client in clients]
        squad = self._policies[mask].next_squad(scaled, own, effective, self.states[mask])
        self.states[mask] = squad.state
        return replace(squad, members=tuple(_confined(member, mask) for member in squad.members))


def _as_card(mask: int, card: ShareableCard) -> ShareableCard:
    return replace(card, groups=mask.bit_count(), sms=0, memory_bytes=0) if mask else card


def _as_on(client: GpuClient, part_milli: int) -> GpuClient:
    """Its curve over parts of the virtual card, where 1 is its speed with all of that."""
    whole = solo_speed(client, part_milli)
    if whole <= 0:
        return client
    inside = [(at * WHOLE_MILLI // part_milli, speed / whole) for at, speed in client.curve if at < part_milli]
    seen = client.requests
    if seen is not None:
        seen = replace(seen, solo_per_s=seen.solo_per_s * whole, work_us=seen.work_us / whole)
    return replace(client, curve=(*(point for point in inside if point[0] > 0), (WHOLE_MILLI, 1.0)), requests=seen)


def _confined(member: SquadMember, mask: int) -> SquadMember:
    """The policy counted the groups of the virtual card from 0. No restriction stays none: who writes the grant says
    mask what. Priorities are for work on no partition, and a virtual card is one."""
    if not mask:
        return member
    groups = sum(bit for place, bit in enumerate(_bits(mask)) if member.groups >> place & 1)
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
