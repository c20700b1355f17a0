"""Priority: each priority class gets a multiple of the share of the class below, which is never zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.model.squad import DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.policies._bounds import check
from gpusquad.policies.divide._bounds import SQUAD_US
from gpusquad.policies.divide._configurations import squad_by_fraction
from gpusquad.policies.divide._squad_builder import single_client_squad
from gpusquad.registry import register

_MIN_WEIGHT = 1e-3
"""A client of weight 0 still runs occasionally."""


@register("divide", "priority")
@dataclass(frozen=True)
class Priority:
    """Each priority class gets a multiple of the share of the class below; within a class by weight."""

    ratio: float = 4.0
    """Share of a class relative to the class below. Less than 1 would favour the lower one."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(self, "divide.priority", ratio=(1, 1000), squad_us=SQUAD_US)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = single_client_squad(clients, state)
        if alone is not None:
            return alone
        fractions = {client.id: max(client.weight, _MIN_WEIGHT) * self.ratio**client.priority for client in clients}
        return squad_by_fraction(clients, fractions, card, effective, state, self.squad_us, "by priority and weight")
