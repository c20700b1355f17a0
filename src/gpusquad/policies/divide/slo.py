"""Slo: SLOs first; all other clients use what they leave.

More urgent clients go first. The others yield while these are busy and use the whole card in their pauses:

- A client with a latency SLO is the most urgent, unless it meets its target with ease.
- A client with a throughput SLO or a deadline is urgent while that is at risk.
- All others share the rest by their weights.

A service may be bound by its host: it seems busy while its program computes on the CPU, and others would lose far more
than it uses. Where the driver has priorities, others run beside such a service for as long as its SLO allows.

Memory is limited by quotas, which always apply: unlike SMs, memory cannot be taken back from a borrower.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from gpusquad.model.squad import (
    UNGATED_US,
    Configuration,
    DivideState,
    EffectiveRate,
    GpuClient,
    PolicyMemory,
    ShareableCard,
    Squad,
    SquadMember,
)
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies._bounds import check
from gpusquad.policies.divide import _squad_builder
from gpusquad.policies.divide._bounds import COUNT, PART, SQUAD_US
from gpusquad.policies.divide._configurations import squad_by_fraction
from gpusquad.policies.divide._slo import misses, predicted_attainment
from gpusquad.policies.divide._squad_builder import SquadHistory
from gpusquad.policies.divide._weights import LearnedWeights, updated
from gpusquad.registry import register

_CALM, _AT_RISK, _LATENCY = 0, 1, 2
_CLASS = 0.01
"""Of two SLOs at risk, the one of the higher priority class goes first."""


@dataclass(frozen=True)
class HostBoundServices(PolicyMemory):
    """Services that others run beside instead of yielding to them."""

    beside: Mapping[str, int] = field(default_factory=dict)
    """By client with a latency SLO. Above 0: others run beside it. Below 0: that failed and is not tried again for this
    number of squads."""

    def only(self, clients: Collection[str]) -> Self:
        return replace(self, beside=_squad_builder.of_clients(clients, self.beside))


@register("divide", "slo")
@dataclass(frozen=True)
class SloDivide:
    """Latency, throughput and deadline SLOs go first while they need it; all others fill their pauses."""

    margin: float = 1.1
    """Factor by which SLOs are planned to be exceeded."""
    ease_ratio: float = 0.4
    """A latency target is met with ease below this fraction of it. Then SLOs at risk need not yield. Beside others a
    request takes two to three times as long."""
    alpha: float = 0.002
    """Rate at which a missed SLO raises a weight: the fraction per squad that misses it wholly."""
    ease: float = 0.0002
    """Rate at which a weight returns once the SLO is met: over thousands of squads, which are seconds, like the window
    in which attainment is measured."""
    wasteful: float = 2.0
    """A service whose busy time is more than this multiple of its GPU time is bound by its host."""
    evidence: int = 50
    """Requests needed before a service is taken to be bound by its host."""
    slack: float = 0.02
    """Attainment that a service may lose beside others. Smaller losses are not significant in one window."""
    cooling: int = 10_000
    """Squads before running beside a service is tried again after it failed."""
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
        weights = updated(clients, state.get(LearnedWeights).weights, self.alpha, self.ease)
        tried = state.get(HostBoundServices).beside
        beside = {one.id: self._beside(one, card, tried.get(one.id, 0)) for one in clients if one.has_latency_slo}
        urgency = {one.id: self._urgency(one, clients, beside, weights, effective) for one in clients}
        calm = [one for one in clients if urgency[one.id] == _CALM and not one.has_latency_slo]
        shared = self._shared(calm, card, effective, state)
        before = shared.state if shared is not None else state
        allocations = [_allocation(one, shared, _more_urgent(one, clients, urgency)) for one in clients]
        after = _squad_builder.state_after(clients, before, LearnedWeights(weights), HostBoundServices(beside))
        length_us = _squad_builder.length_us(clients, self.squad_us)
        why = _words(clients, urgency, beside, shared)
        configuration = _configuration(urgency, shared)
        found = _squad_builder.squad(allocations, clients, card, configuration, length_us, why, after)
        # Every client has an allocation here. Turns matter only among the clients that share, so keep their counts.
        waited = before.get(SquadHistory).waited
        return replace(found, state=found.state.put(replace(found.state.get(SquadHistory), waited=waited)))

    def _shared(
        self, calm: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad | None:
        """How the clients that are not urgent share among themselves: by their own weights, because a missed SLO is
        compensated by going first. None: they are idle."""
        if all(one.is_idle for one in calm):
            return None
        fractions = {one.id: one.weight for one in calm}
        return squad_by_fraction(calm, fractions, card, effective, state, self.squad_us, "the others")

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
        return 0 < seen_us <= self.ease_ratio * client.slo.latency_us and not misses(client)

    def _is_at_risk(
        self, client: GpuClient, clients: Sequence[GpuClient], weights: Mapping[str, float], effective: EffectiveRate
    ) -> bool:
        """By the measured attainment or rate; without one, by the prediction side by side with all others. If neither
        is known the SLO is not at risk: others would yield to this client indefinitely."""
        if misses(client):
            return True
        seen, wanted = client.requests, client.slo.throughput_per_s if client.slo is not None else None
        if wanted and seen is not None and seen.active_per_s > 0:
            return seen.active_per_s < self.margin * wanted
        others = tuple((other, WHOLE_MILLI) for other in clients if other is not client and not other.is_idle)
        predicted = predicted_attainment(client, effective(client, WHOLE_MILLI, others))
        return predicted < self.margin * max(weights[client.id], 1.0)

    def _beside(self, client: GpuClient, card: ShareableCard, before: int) -> int:
        """The new value of ``HostBoundServices.beside``."""
        if before < 0:
            return before + 1
        if not card.has_priorities or not self._is_wasteful(client):
            return 0
        if before > 0 and misses(client, self.slack):
            return -self.cooling
        return 1

    def _is_wasteful(self, client: GpuClient) -> bool:
        seen = client.requests
        if seen is None or seen.count < self.evidence:
            return False
        return client.busy_ratio > self.wasteful * seen.busy_ratio > 0


def _more_urgent(client: GpuClient, clients: Sequence[GpuClient], urgency: Mapping[str, float]) -> int:
    """Mask of more urgent clients. Idle ones count, because they may wake at any time. A client with a latency SLO
    yields to no other kind of SLO, even while the others do not yield to it."""
    least = _LATENCY + _CLASS * client.priority if client.has_latency_slo else _CALM
    own = max(urgency[client.id], least)
    return _squad_builder.slots(one.slot for one in clients if urgency[one.id] > own)


def _allocation(client: GpuClient, shared: Squad | None, first: int) -> _squad_builder.ClientAllocation:
    """``shared``: squad of the clients that are not urgent."""
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
    """Only groups, which are rare here, justify waiting at the gate."""
    return shared.credit_us if shared.groups else UNGATED_US


def _words(
    clients: Sequence[GpuClient], urgency: Mapping[str, float], beside: Mapping[str, int], shared: Squad | None
) -> str:
    ranked = sorted((one for one in clients if urgency[one.id] > _CALM), key=lambda one: -urgency[one.id])
    words = [f"{_names(ranked)} first, others in the pauses" if ranked else "nothing is urgent"]
    bound = [one for one in clients if beside.get(one.id, 0) > 0]
    words += [f"beside {_names(bound)}, bound by the host"] if bound else []
    words += [shared.why] if shared is not None else []
    return "; ".join(words)


def _names(clients: Sequence[GpuClient]) -> str:
    return ", ".join(one.id for one in clients)
