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
from gpusquad.policies.divide._slo import predicted_attainment, target
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
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = _squad_builder.single_client_squad(clients, state)
        if alone is not None:
            return alone
        weights = updated(clients, state.weights, self.alpha, self.ease)
        beside = {one.id: self._beside(one, card, state) for one in clients if one.has_latency_slo}
        urgency = {one.id: self._urgency(one, clients, beside, weights, effective) for one in clients}
        calm = [one for one in clients if urgency[one.id] == _CALM and not one.has_latency_slo]
        shared = self._shared(calm, card, effective, state)
        before = shared.state if shared is not None else state
        parts = [_part(one, shared, _more_urgent(one, clients, urgency)) for one in clients]
        after = _squad_builder.fresh(clients, before, weights=weights, beside=beside)
        length_us = _squad_builder.length_us(clients, self.squad_us)
        why = _words(clients, urgency, beside, shared)
        found = _squad_builder.squad(parts, clients, card, _configuration(urgency, shared), length_us, why, after)
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
        self, client: GpuClient, clients: Sequence[GpuClient], beside: Mapping[str, int], weights: Mapping[str, float],
        effective: EffectiveRate,
    ) -> float:  # fmt: skip
        if client.has_latency_slo:
            if beside[client.id] > 0:
                return _CALM
            return _AT_RISK if self._is_at_ease(client) else _LATENCY + _CLASS * client.priority
        if not client.has_slo or not self._is_at_risk(client, clients, weights, effective):
            return _CALM
        return _AT_RISK + _CLASS * client.priority

    def _is_at_ease(self, client: GpuClient) -> bool:
        assert client.slo is not None
        assert client.slo.latency_us is not None
        seen_us = client.requests.latency_us if client.requests is not None else 0.0
        return 0 < seen_us <= self.ease_ratio * client.slo.latency_us and client.attainment >= target(client)

    def _is_at_risk(
        self, client: GpuClient, clients: Sequence[GpuClient], weights: Mapping[str, float], effective: EffectiveRate
    ) -> bool:
        """By what is seen of it; by what is foretold side by side with all others, while nothing is. Of whom neither is
        known nobody can say that it is: others would yield to it for ever."""
        if client.attainment < target(client):
            return True
        seen, wanted = client.requests, client.slo.throughput_per_s if client.slo is not None else None
        if wanted and seen is not None and seen.active_per_s > 0:
            return seen.active_per_s < self.margin * wanted
        others = tuple((other, WHOLE_MILLI) for other in clients if other is not client and not other.is_idle)
        return predicted_attainment(client, effective(client, WHOLE_MILLI, others)) < self.margin * max(
            weights[client.id], 1.0
        )

    def _beside(self, client: GpuClient, card: ShareableCard, state: DivideState) -> int:
        now = state.beside.get(client.id, 0)
        if now < 0:
            return now + 1
        if not card.has_priorities or not self._is_wasteful(client):
            return 0
        if now > 0 and client.attainment < target(client) - self.slack:
            return -self.cooling
        return 1

    def _is_wasteful(self, client: GpuClient) -> bool:
        seen = client.requests
        if seen is None or seen.count < self.evidence:
            return False
        return client.busy_ratio > self.wasteful * seen.busy_ratio > 0


def _more_urgent(client: GpuClient, clients: Sequence[GpuClient], urgency: Mapping[str, float]) -> int:
    """Those that sleep too: they wake without asking. Who has a latency target stands back for no other goal, though
    nobody may stand back for it."""
    least = _LATENCY + _CLASS * client.priority if client.has_latency_slo else _CALM
    own = max(urgency[client.id], least)
    return _squad_builder.slots(one.slot for one in clients if urgency[one.id] > own)


def _part(client: GpuClient, shared: Squad | None, first: int) -> _squad_builder.ClientAllocation:
    """``shared``: what those have who are not urgent."""
    own = shared.of(client.slot) if shared is not None else None
    if own is None:
        return _squad_builder.ClientAllocation(client, yield_to=first)
    return _squad_builder.ClientAllocation(
        client, own.groups, own.restricted_us, own.yield_to | first, _credit_us(own), own.level
    )


def _configuration(urgency: Mapping[str, float], shared: Squad | None) -> Configuration:
    if any(level > _CALM for level in urgency.values()):
        return "temporal"
    return shared.configuration if shared is not None else "unrestricted"


def _credit_us(shared: SquadMember) -> int:
    """Only groups, which do not come often here, are worth standing at a gate for."""
    return shared.credit_us if shared.groups else UNGATED_US


def _words(
    clients: Sequence[GpuClient], urgency: Mapping[str, float], beside: Mapping[str, int], shared: Squad | None
) -> str:
    ranked = sorted((one for one in clients if urgency[one.id] > _CALM), key=lambda one: -urgency[one.id])
    told = [f"{_names(ranked)} first, others in the pauses" if ranked else "nothing is urgent"]
    bound = [one for one in clients if beside.get(one.id, 0) > 0]
    told += [f"beside {_names(bound)}, bound by the host"] if bound else []
    told += [shared.why] if shared is not None else []
    return "; ".join(told)


def _names(clients: Sequence[GpuClient]) -> str:
    return ", ".join(one.id for one in clients)
