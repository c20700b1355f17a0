"""Priority: each class has several times the part of the one below, which is never nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.model.squad import DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.policies._bounds import check
from gpusquad.policies.divide._bounds import SQUAD_US
from gpusquad.policies.divide._configurations import by_parts
from gpusquad.policies.divide._squad_builder import nobody_to_share_with
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
        self, tenants: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = nobody_to_share_with(tenants, state)
        if alone is not None:
            return alone
        parts = {tenant.id: max(tenant.weight, _LEAST) * self.ratio**tenant.priority for tenant in tenants}
        return by_parts(tenants, parts, card, effective, state, self.squad_us, "by priority and weight")
