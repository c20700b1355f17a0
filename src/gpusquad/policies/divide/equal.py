"""Equal: every active client gets the same share of the card."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.model.squad import DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.policies._bounds import check
from gpusquad.policies.divide._bounds import SQUAD_US
from gpusquad.policies.divide._configurations import squad_by_fraction
from gpusquad.policies.divide._squad_builder import single_client_squad
from gpusquad.registry import register


@register("divide", "equal")
@dataclass(frozen=True)
class Equal:
    """Every active client gets the same share of the card."""

    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(self, "divide.equal", squad_us=SQUAD_US)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = single_client_squad(clients, state)
        if alone is not None:
            return alone
        fractions = {client.id: 1.0 for client in clients}
        return squad_by_fraction(clients, fractions, card, effective, state, self.squad_us, "equal shares")
