"""Slo: goals first, and what they leave to everybody else.

Whoever is more urgent goes first; all others stand still on the card while it is busy, and have all of the card in
every pause of it:

- A tenant with a latency target is the most urgent, the more so while it does not meet it with ease.
- One with a throughput target or a deadline is urgent while that is at risk.
- All others share what is left by their weights.

A service may be bound by its host: it seems busy while its program thinks, and others would lose far more than it uses.
Where the driver knows priorities, others run beside such a one, as long as that does.

Memory is held by quotas, which always stand: unlike SMs it could not be taken back from whoever borrowed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpusquad.model.squad import (
    UNGATED_US,
    Configuration,
    DivideState,
    EffectiveRate,
    GpuClient,
    ShareableCard,
    Squad,
    SquadMember,
)
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies._bounds import check
from gpusquad.policies.divide import _squad_builder
from gpusquad.policies.divide._bounds import COUNT, PART, SQUAD_US
from gpusquad.policies.divide._configurations import by_parts
from gpusquad.policies.divide._slo import foretold, target
from gpusquad.policies.divide._weights import updated
from gpusquad.registry import register

_CALM, _AT_RISK, _LATENCY = 0, 1, 2
_CLASS = 0.01
"""Of two goals at risk the one of the higher class goes first."""


@register("divide", "slo")
@dataclass(frozen=True)
class SloDivide:
    """Goals of latency, throughput and deadline go first while they need it; all others fill every pause."""

    margin: float = 1.1
    """Goals are planned to be met with so much to spare."""
    ease_ratio: float = 0.4
    """A latency target is met with ease below this part of it: then goals at risk need not stand back. Beside others a
    request takes two to three times as long."""
    alpha: float = 0.002
    """How fast a missed goal raises a weight: a squad that misses it wholly, by this part."""
    ease: float = 0.0002
    """How fast a weight goes back once the goal is met: in thousands of squads, which are seconds, as the window is in
    which it is seen whether the goal is met."""
    wasteful: float = 2.0
    """A service that seems busy for so many times its own GPU time is bound by its host."""
    evidence: int = 50
    """That is believed after so many requests."""
    slack: float = 0.02
    """Beside others a service may fall short of its goal by so much: less is not known from a window."""
    cooling: int = 10_000
    """Where that did not do it is tried again after so many squads."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(
            self, "divide.slo", margin=(1, 10), ease_ratio=PART, alpha=PART, ease=PART, wasteful=(1, 1000),
            evidence=COUNT, slack=PART, cooling=(0, COUNT[1]), squad_us=SQUAD_US,
        )  # fmt: skip

    def next_squad(
        self, tenants: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = _squad_builder.nobody_to_share_with(tenants, state)
        if alone is not None:
            return alone
        weights = updated(tenants, state.weights, self.alpha, self.ease)
        beside = {one.id: self._beside(one, card, state) for one in tenants if one.has_latency_goal}
        urgency = {one.id: self._urgency(one, tenants, beside, weights, effective) for one in tenants}
        calm = [one for one in tenants if urgency[one.id] == _CALM and not one.has_latency_goal]
        shared = self._shared(calm, card, effective, state)
        before = shared.state if shared is not None else state
        parts = [_part(one, shared, _more_urgent(one, tenants, urgency)) for one in tenants]
        after = _squad_builder.fresh(tenants, before, weights=weights, beside=beside)
        length_us = _squad_builder.length_us(tenants, self.squad_us)
        why = _words(tenants, urgency, beside, shared)
        found = _squad_builder.squad(parts, tenants, card, _configuration(urgency, shared), length_us, why, after)
        # Whose turn it is among those who share is their business: here everybody has a part.
        return replace(found, state=replace(found.state, waited=before.waited))

    def _shared(
        self, calm: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad | None:
        """How those that are not urgent share among themselves: by their own weights, for a goal that was missed is
        made good by going first. None: they sleep."""
        if all(one.is_idle for one in calm):
            return None
        parts = {one.id: one.weight for one in calm}
        return by_parts(calm, parts, card, effective, state, self.squad_us, "the others")

    def _urgency(
        self, tenant: GpuClient, tenants: Sequence[GpuClient], beside: Mapping[str, int], weights: Mapping[str, float],
        effective: EffectiveRate,
    ) -> float:  # fmt: skip
        if tenant.has_latency_goal:
            if beside[tenant.id] > 0:
                return _CALM
            return _AT_RISK if self._is_at_ease(tenant) else _LATENCY + _CLASS * tenant.priority
        if not tenant.has_goal or not self._is_at_risk(tenant, tenants, weights, effective):
            return _CALM
        return _AT_RISK + _CLASS * tenant.priority

    def _is_at_ease(self, tenant: GpuClient) -> bool:
        assert tenant.slo is not None
        assert tenant.slo.latency_us is not None
        seen_us = tenant.requests.latency_us if tenant.requests is not None else 0.0
        return 0 < seen_us <= self.ease_ratio * tenant.slo.latency_us and tenant.attainment >= target(tenant)

    def _is_at_risk(
        self, tenant: GpuClient, tenants: Sequence[GpuClient], weights: Mapping[str, float], effective: EffectiveRate
    ) -> bool:
        """By what is seen of it; by what is foretold side by side with all others, while nothing is. Of whom neither is
        known nobody can say that it is: others would yield to it for ever."""
        if tenant.attainment < target(tenant):
            return True
        seen, wanted = tenant.requests, tenant.slo.throughput_per_s if tenant.slo is not None else None
        if wanted and seen is not None and seen.awake_per_s > 0:
            return seen.awake_per_s < self.margin * wanted
        others = tuple((other, WHOLE_MILLI) for other in tenants if other is not tenant and not other.is_idle)
        return foretold(tenant, effective(tenant, WHOLE_MILLI, others)) < self.margin * max(weights[tenant.id], 1.0)

    def _beside(self, tenant: GpuClient, card: ShareableCard, state: DivideState) -> int:
        now = state.beside.get(tenant.id, 0)
        if now < 0:
            return now + 1
        if not card.has_priorities or not self._is_wasteful(tenant):
            return 0
        if now > 0 and tenant.attainment < target(tenant) - self.slack:
            return -self.cooling
        return 1

    def _is_wasteful(self, tenant: GpuClient) -> bool:
        seen = tenant.requests
        if seen is None or seen.count < self.evidence:
            return False
        return tenant.busy_ratio > self.wasteful * seen.busy_ratio > 0


def _more_urgent(tenant: GpuClient, tenants: Sequence[GpuClient], urgency: Mapping[str, float]) -> int:
    """Those that sleep too: they wake without asking. Who has a latency target stands back for no other goal, though
    nobody may stand back for it."""
    least = _LATENCY + _CLASS * tenant.priority if tenant.has_latency_goal else _CALM
    own = max(urgency[tenant.id], least)
    return _squad_builder.slots(one.slot for one in tenants if urgency[one.id] > own)


def _part(tenant: GpuClient, shared: Squad | None, first: int) -> _squad_builder.ClientAllocation:
    """``shared``: what those have who are not urgent."""
    own = shared.of(tenant.slot) if shared is not None else None
    if own is None:
        return _squad_builder.ClientAllocation(tenant, yields=first)
    return _squad_builder.ClientAllocation(
        tenant, own.groups, own.restricted_us, own.yields | first, _credit_us(own), own.level
    )


def _configuration(urgency: Mapping[str, float], shared: Squad | None) -> Configuration:
    if any(level > _CALM for level in urgency.values()):
        return "temporal"
    return shared.configuration if shared is not None else "unrestricted"


def _credit_us(shared: SquadMember) -> int:
    """Only groups, which do not come often here, are worth standing at a gate for."""
    return shared.credit_us if shared.groups else UNGATED_US


def _words(
    tenants: Sequence[GpuClient], urgency: Mapping[str, float], beside: Mapping[str, int], shared: Squad | None
) -> str:
    ranked = sorted((one for one in tenants if urgency[one.id] > _CALM), key=lambda one: -urgency[one.id])
    told = [f"{_names(ranked)} first, others in the pauses" if ranked else "nothing is urgent"]
    bound = [one for one in tenants if beside.get(one.id, 0) > 0]
    told += [f"beside {_names(bound)}, bound by the host"] if bound else []
    told += [shared.why] if shared is not None else []
    return "; ".join(told)


def _names(tenants: Sequence[GpuClient]) -> str:
    return ", ".join(one.id for one in tenants)
