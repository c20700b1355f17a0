"""Promised parts of the SMs hold under every policy.

A policy divides as it sees fit, as long as everybody who wants the card gets what it was promised of it over time.
Whoever falls behind is made good first: for as long as that takes, the card is divided as promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpusquad.model.squad import DividePolicy, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.model.units import WHOLE_MILLI

BEHIND_US = 5_000
"""A promise is over tens of milliseconds: within this, whose turn it is is the policy's business."""
MOST_US = 4 * BEHIND_US
"""Older debts are forgotten, and nobody saves up more: who was served more for a while does not wait for long."""


class GuaranteeGuard:
    """A policy, and ``as_promised``, which divides while somebody is behind."""

    def __init__(self, policy: DividePolicy, as_promised: DividePolicy) -> None:
        self._policy, self._as_promised = policy, as_promised
        self.behind_us: dict[str, float] = {}
        """Service that each is short of its promise; below 0: it had more."""
        self._seen_us: dict[str, int] = {}
        self._making_good = False

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        self._account(clients)
        # Until nothing is owed any more: else there would be a change of policy every few squads.
        least_us = 0 if self._making_good else BEHIND_US
        owed = [client.id for client in clients if self.behind_us.get(client.id, 0.0) > least_us]
        self._making_good = bool(owed)
        if not owed:
            return self._policy.next_squad(clients, card, effective, state)
        squad = self._as_promised.next_squad(clients, _divisible(card, clients), effective, state)
        return replace(squad, why=f"{', '.join(owed)} had less than guaranteed: {squad.why}")

    def _account(self, clients: Sequence[GpuClient]) -> None:
        """Of all that was served since the last squad. Whoever sleeps, or was not here, is owed nothing."""
        had = {one.id: one.attained_us - self._seen_us.get(one.id, one.attained_us) for one in clients}
        total_us = sum(had.values())
        self.behind_us = {
            one.id: self._after(one, one.guaranteed_milli * total_us / WHOLE_MILLI - had[one.id])
            for one in clients
            if one.guaranteed_milli and not one.is_idle
        }
        self._seen_us = {one.id: one.attained_us for one in clients}

    def _after(self, client: GpuClient, short_us: float) -> float:
        return min(max(self.behind_us.get(client.id, 0.0) + short_us, -MOST_US), MOST_US)


def _divisible(card: ShareableCard, clients: Sequence[GpuClient]) -> ShareableCard:
    """SMs of their own do nothing for those who take turns: a promise to them can only be one of time."""
    return replace(card, groups=1) if any(one.is_time_sliced for one in clients) else card
