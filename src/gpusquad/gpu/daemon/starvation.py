"""Limit on how long a client with work can go without service, under every policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusquad.model.squad import DividePolicy, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad

MAX_UNSERVED_SQUADS = 50
"""Consecutive squads without service. Then the client yields to no other for one squad, and only clients with a latency
SLO have a higher level."""


class StarvationGuard:
    """Wraps a policy and ends yielding after a while: a client that goes first may never pause, or hang."""

    def __init__(self, policy: DividePolicy) -> None:
        self._policy = policy
        self._unserved: dict[str, int] = {}
        """Consecutive squads in which a client had work and no service."""
        self._seen_us: dict[str, int] = {}

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        self._account(clients)
        squad = self._policy.next_squad(clients, card, effective, state)
        starved = [one for one in clients if self._unserved[one.id] >= MAX_UNSERVED_SQUADS]
        if not starved:
            return squad
        for one in starved:
            self._unserved[one.id] = 0
        slots, services = {one.slot for one in starved}, {one.slot for one in clients if one.has_latency_slo}
        members = tuple(
            replace(
                one, yield_to=0 if one.slot in slots else one.yield_to, level=one.level if one.slot in services else 0
            )
            for one in squad.members
        )
        names = ", ".join(one.id for one in starved)
        return replace(squad, members=members, why=f"{names} got no service for too long: {squad.why}")

    def _account(self, clients: Sequence[GpuClient]) -> None:
        """Count unserved squads. Idle and new clients have none."""
        before, seen_us = self._unserved, self._seen_us
        self._unserved = {
            one.id: before.get(one.id, 0) + 1 if not one.is_idle and one.attained_us <= seen_us.get(one.id, -1) else 0
            for one in clients
        }
        self._seen_us = {one.id: one.attained_us for one in clients}
