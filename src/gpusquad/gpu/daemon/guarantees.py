"""Guaranteed shares of the SMs under every policy.

The policy decides as long as every client with work gets its guaranteed share over time. While a client is behind, the
card is divided by guaranteed shares until that is compensated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusquad.model.squad import DividePolicy, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.model.units import WHOLE_MILLI

BEHIND_US = 5_000
"""A guarantee covers tens of milliseconds. Within this lag the policy decides."""
MAX_LAG_US = 4 * BEHIND_US
"""Bound of the lag in both directions, so that a client that was served more for a while does not wait long."""


class GuaranteeGuard:
    """Wraps a policy. ``guaranteed`` divides the card while a client is behind."""

    def __init__(self, policy: DividePolicy, guaranteed: DividePolicy) -> None:
        self._policy, self._guaranteed = policy, guaranteed
        self.behind_us: dict[str, float] = {}
        """Service that each client is behind its guarantee; below 0: ahead."""
        self._seen_us: dict[str, int] = {}
        self._compensating = False

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        self._account(clients)
        # Until nothing is owed: otherwise the policy would change every few squads.
        least_us = 0 if self._compensating else BEHIND_US
        owed = [client.id for client in clients if self.behind_us.get(client.id, 0.0) > least_us]
        self._compensating = bool(owed)
        if not owed:
            return self._policy.next_squad(clients, card, effective, state)
        squad = self._guaranteed.next_squad(clients, _divisible(card, clients), effective, state)
        return replace(squad, why=f"{', '.join(owed)} had less than guaranteed: {squad.why}")

    def _account(self, clients: Sequence[GpuClient]) -> None:
        """Account the service since the last squad. Idle and new clients are owed nothing."""
        had = {one.id: one.attained_us - self._seen_us.get(one.id, one.attained_us) for one in clients}
        total_us = sum(had.values())
        self.behind_us = {
            one.id: self._after(one, one.guaranteed_milli * total_us / WHOLE_MILLI - had[one.id])
            for one in clients
            if one.guaranteed_milli and not one.is_idle
        }
        self._seen_us = {one.id: one.attained_us for one in clients}

    def _after(self, client: GpuClient, short_us: float) -> float:
        return min(max(self.behind_us.get(client.id, 0.0) + short_us, -MAX_LAG_US), MAX_LAG_US)


def _divisible(card: ShareableCard, clients: Sequence[GpuClient]) -> ShareableCard:
    """Own SMs do not help time-sliced clients: their guarantee can only be one of time."""
    return replace(card, groups=1) if any(one.is_time_sliced for one in clients) else card
