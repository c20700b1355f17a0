"""Priority: each class has several times the part of the one below, which is never nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.model.squad import DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.policies._bounds import check
from gpusquad.policies.divide._bounds import SQUAD_US
from gpusquad.policies.divide._configurations import by_parts
from gpusquad.policies.divide._squad_builder import single_client_squad
from gpusquad.registry import register

_LEAST = 1e-3
"""A weight of nought still gets a turn now and then."""


@register("divide", "priority")
@dataclass(frozen=True)
class Priority:
    """Each priority class has several times the part of the one below; within a class by weight."""

    ratio: float = 4.0
    """What a class has over the one below; less than 1 would favour the lower one."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(self, "divide.priority", ratio=(1, 1000), squad_us=SQUAD_US)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = single_client_squad(clients, state)
        if alone is not None:
            return alone
        parts = {client.id: max(client.weight, _LEAST) * self.ratio**client.priority for client in clients}
        return by_parts(clients, parts, card, effective, state, self.squad_us, "by priority and weight")
