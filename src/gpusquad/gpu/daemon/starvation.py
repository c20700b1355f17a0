"""Nobody who wants the card is kept off it for ever, whatever the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusquad.model.squad import DividePolicy, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad

PATIENCE = 50
"""Squads in a row without any service; then it goes beside whoever goes first, for one. Nobody is raised above it then
but for a latency target."""


class StarvationGuard:
    """A policy, and an end to its yielding: those who go first may never pause, or hang."""

    def __init__(self, policy: DividePolicy) -> None:
        self._policy = policy
        self._kept_off: dict[str, int] = {}
        """Squads in a row in which a tenant wanted the card and was served nothing."""
        self._seen_us: dict[str, int] = {}

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        self._account(clients)
        squad = self._policy.next_squad(clients, card, effective, state)
        starved = [one for one in clients if self._kept_off[one.id] >= PATIENCE]
        if not starved:
            return squad
        for one in starved:
            self._kept_off[one.id] = 0
        slots, services = {one.slot for one in starved}, {one.slot for one in clients if one.has_latency_slo}
        members = tuple(
            replace(
                one, yield_to=0 if one.slot in slots else one.yield_to, level=one.level if one.slot in services else 0
            )
            for one in squad.members
        )
        names = ", ".join(one.id for one in starved)
        return replace(squad, members=members, why=f"{names} had nothing for too long: {squad.why}")

    def _account(self, clients: Sequence[GpuClient]) -> None:
        """Whoever sleeps, or is new, was kept off nothing."""
        before, seen_us = self._kept_off, self._seen_us
        self._kept_off = {
            one.id: before.get(one.id, 0) + 1 if not one.is_idle and one.attained_us <= seen_us.get(one.id, -1) else 0
            for one in clients
        }
        self._seen_us = {one.id: one.attained_us for one in clients}
