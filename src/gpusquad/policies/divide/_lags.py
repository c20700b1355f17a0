"""Service that each client is behind its due, so that later squads compensate it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from gpusquad.model.squad import DivideState, GpuClient, PolicyMemory
from gpusquad.policies.divide._squad_builder import SquadHistory, of_clients

MAX_SQUADS = 4
"""Bound of a lag, in squads. Older debts would starve other clients later."""


@dataclass(frozen=True)
class ServiceLags(PolicyMemory):
    """Shared by all policies that divide by fractions."""

    lags_us: Mapping[str, float] = field(default_factory=dict)
    """Service that a client is behind its due (below 0: ahead)."""
    dues: Mapping[str, float] = field(default_factory=dict)
    """Fraction of all service that was due to each client in the last squad."""

    def only(self, clients: Collection[str]) -> Self:
        return replace(self, lags_us=of_clients(clients, self.lags_us))


def lags_us(clients: Sequence[GpuClient], state: DivideState, length_us: int) -> dict[str, float]:
    """Sum over squads of the service due minus the service received. An idle client neither saves nor owes."""
    before, seen_us = state.get(ServiceLags), state.get(SquadHistory).seen_us
    had = {one.id: one.attained_us - seen_us.get(one.id, one.attained_us) for one in clients}
    total = sum(had[one.id] for one in clients if one.id in before.dues)
    most_us = MAX_SQUADS * length_us
    found = {}
    for client in clients:
        if client.is_idle or client.id not in before.dues:
            found[client.id] = 0.0
            continue
        behind_us = before.lags_us.get(client.id, 0.0) + total * before.dues[client.id] - had[client.id]
        found[client.id] = min(max(behind_us, -most_us), most_us)
    return found


def corrected(fractions: Mapping[str, float], lags: Mapping[str, float], length_us: int) -> dict[str, float]:
    """Fractions raised for clients that are behind: at most doubled, at least halved."""
    return {name: one * 2.0 ** (lags.get(name, 0.0) / (MAX_SQUADS * length_us)) for name, one in fractions.items()}
