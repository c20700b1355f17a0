"""A card divided into virtual cards, each of which the policy divides among its clients.

For the policy a virtual card is a card with fewer groups. Clients of different virtual cards are not neighbours, so
nothing is lent between them and their SMs are independent. L2 and memory bandwidth stay shared.
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
"""Mask of clients that are not on a virtual card."""


class VirtualCardPolicy:
    """Policy for cards with clients on virtual cards. ``make`` returns the policy of one virtual card."""

    def __init__(self, make: Callable[[], DividePolicy]) -> None:
        self._make = make
        self._policies: dict[int, DividePolicy] = {WHOLE: make()}
        self.states: dict[int, DivideState] = {}
        """State of each virtual card, by its mask."""

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        by_mask: dict[int, list[GpuClient]] = {}
        for client in clients:
            by_mask.setdefault(client.virtual_card_mask, []).append(client)
        if set(by_mask) <= {WHOLE}:
            self.states.clear()
            return self._policies[WHOLE].next_squad(clients, card, effective, state)
        self.states = {mask: self.states.get(mask, DivideState()) for mask in by_mask}
        self._policies = {mask: self._policies.get(mask) or self._make() for mask in {WHOLE, *by_mask}}
        return _together([self._squad_of(mask, by_mask[mask], card, effective) for mask in sorted(by_mask)], state)

    def _squad_of(
        self, mask: int, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate
    ) -> Squad:
        own = _as_card(mask, card)
        scaled = [_as_on(client, card.share_milli(own.groups)) if mask else client for client in clients]
        squad = self._policies[mask].next_squad(scaled, own, effective, self.states[mask])
        self.states[mask] = squad.state
        return replace(squad, members=tuple(_confined(member, mask) for member in squad.members))


def _as_card(mask: int, card: ShareableCard) -> ShareableCard:
    return replace(card, groups=mask.bit_count(), sms=0, memory_bytes=0) if mask else card


def _as_on(client: GpuClient, part_milli: int) -> GpuClient:
    """The client with its curve relative to the whole virtual card."""
    whole = solo_speed(client, part_milli)
    if whole <= 0:
        return client
    inside = [(at * WHOLE_MILLI // part_milli, speed / whole) for at, speed in client.curve if at < part_milli]
    seen = client.requests
    if seen is not None:
        seen = replace(seen, solo_per_s=seen.solo_per_s * whole, work_us=seen.work_us / whole)
    return replace(client, curve=(*(point for point in inside if point[0] > 0), (WHOLE_MILLI, 1.0)), requests=seen)


def _confined(member: SquadMember, mask: int) -> SquadMember:
    """Maps group numbers of the virtual card to those of the card. No restriction stays none: the grant carries the
    mask of the virtual card. Levels apply only without a partition, and a virtual card is one."""
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
