"""Guaranteed: every client gets its guaranteed share of the SMs. Clients without a guarantee share the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.model.squad import DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies._bounds import check
from gpusquad.policies.divide._bounds import SQUAD_US
from gpusquad.policies.divide._configurations import squad_by_fraction
from gpusquad.policies.divide._squad_builder import single_client_squad
from gpusquad.registry import register

_MIN_MILLI = 20
"""Share of a client without a guarantee where the guarantees cover the whole card: small, but not zero."""


@register("divide", "guaranteed", deprecated=("promised",))
@dataclass(frozen=True)
class GuaranteedShare:
    """Every client gets its guaranteed share (``share.sm``); clients without one share the rest by weight."""

    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(self, "divide.guaranteed", squad_us=SQUAD_US)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = single_client_squad(clients, state)
        if alone is not None:
            return alone
        return squad_by_fraction(
            clients, _fractions(clients), card, effective, state, self.squad_us, "by guaranteed share"
        )


def _fractions(clients: Sequence[GpuClient]) -> Mapping[str, float]:
    others = [client for client in clients if not client.guaranteed_milli]
    left_milli = WHOLE_MILLI - sum(client.guaranteed_milli for client in clients)
    weights = sum(client.weight for client in others)
    fractions = {client.id: float(client.guaranteed_milli) for client in clients}
    for client in others:
        own = client.weight / weights if weights > 0 else 1.0 / len(others)
        fractions[client.id] = max(left_milli * own, _MIN_MILLI)
    return fractions
