"""Hybrid: maximise ``sum(w * T_eff(s) * Q(s))`` over the ways to divide the card.

``T_eff`` is a client's speed with shares ``s``, relative to running alone. ``Q`` is the SLO attainment predicted at
that speed, raised to ``sharp``. The measured attainment would starve a client that misses its SLO while its weight
grows. Weights are multiplied by ``exp(alpha * (target - actual))``.

Candidates: every split of all SM groups with at least one per client (branch and bound, exact up to ``exact`` clients;
bound: every other client has one group), no restriction, time-slicing, and latency SLOs first. Beside a service that
pauses, splits and time-slicing are left out: it would wait in others' slices, and its groups would idle in its pauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from gpusquad.model.squad import (
    Configuration,
    DivideState,
    EffectiveRate,
    GpuClient,
    PolicyMemory,
    ShareableCard,
    Squad,
)
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies._bounds import check
from gpusquad.policies.divide import _squad_builder
from gpusquad.policies.divide._bounds import COUNT, PART, SQUAD_US
from gpusquad.policies.divide._compatibility import blocks_slo
from gpusquad.policies.divide._configurations import ScoredConfiguration, allocations_for
from gpusquad.policies.divide._search import Utility, best_counts, hill_climbed_counts
from gpusquad.policies.divide._slo import predicted_attainment
from gpusquad.policies.divide._squad_builder import SquadHistory
from gpusquad.policies.divide._weights import LearnedWeights, updated
from gpusquad.registry import register

_BUSY = 0.9
"""A service that is busy for a larger fraction of the time has no pauses worth using."""
_MAX_EXACT = 6
"""The number of splits grows fast with the clients: with seven a search takes most of a second, and clients take a
daemon that is silent for a second for dead."""


@dataclass(frozen=True)
class SearchResult(PolicyMemory):
    """Result of the last search."""

    names: tuple[str, ...] = ()
    """Active clients at the time, with their slots."""
    squads_ago: int = 0
    configuration: str = ""
    first: int = 0
    """Mask of slots that went first."""


@register("divide", "hybrid")
@dataclass(frozen=True)
class Hybrid:
    """Maximises weighted work and predicted SLO attainment; missed SLOs raise weights."""

    alpha: float = 0.002
    """Rate at which a missed SLO raises a weight. Small, because attainment covers the last seconds: thousands of
    squads."""
    ease: float = 0.0002
    """Rate at which a weight returns to its own value once the SLO is met."""
    sharp: float = 2.0
    """Exponent of the predicted attainment."""
    exact: int = 5
    """Largest number of clients for an exact search. Above it, hill climbing is used."""
    stay: float = 0.02
    """Relative gain that a new split must have, because moving has a cost."""
    keep: int = 25
    """Squads for which a result is kept while the same clients are active. With several clients a search takes longer
    than a squad, and its inputs change slowly."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(
            self, "divide.hybrid", alpha=PART, ease=PART, sharp=(0, 10), exact=(0, _MAX_EXACT), stay=PART, keep=COUNT,
            squad_us=SQUAD_US,
        )  # fmt: skip

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = _squad_builder.single_client_squad(clients, state)
        if alone is not None:
            return alone
        weights = updated(clients, state.get(LearnedWeights).weights, self.alpha, self.ease)
        state = _squad_builder.state_after(clients, state, LearnedWeights(weights))
        active = [client for client in clients if _counts_as_active(client)] or list(clients)
        length_us = _squad_builder.length_us(clients, self.squad_us)
        if len(active) == 1:
            only = [_squad_builder.ClientAllocation(active[0], credit_us=_squad_builder.queued_us(1, length_us))]
            why = f"only {active[0].id} is active"
            return _squad_builder.squad(only, clients, card, "unrestricted", length_us, why, state)
        names = tuple(f"{client.id} {client.slot}" for client in active)
        before = state.get(SearchResult)
        kept = _kept(active, card, state) if before.names == names and 0 < before.squads_ago < self.keep else None
        chosen = kept or self.best(active, weights, card, effective, state)
        squads_ago = before.squads_ago + 1 if kept else 1
        state = state.put(SearchResult(names, squads_ago, chosen.configuration, chosen.first))
        allocations = [
            replace(one, by_remaining=True)
            for one in allocations_for(active, weights, chosen, card, state, length_us, {})
            if not one.client.is_idle
        ]
        why = _words(chosen, active) + (", as found before" if kept else f": {chosen.score:.3f} of weighted work")
        return _squad_builder.squad(allocations, clients, card, chosen.configuration, length_us, why, state)

    def best(
        self, active: Sequence[GpuClient], weights: Mapping[str, float], card: ShareableCard, effective: EffectiveRate,
        state: DivideState,
    ) -> ScoredConfiguration:  # fmt: skip
        """The best configuration; the current one if that is nearly as good."""

        def utility(client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]]) -> float:
            return self.utility(client, effective(client, share_milli, others), weights[client.id])

        pauses = any(_pauses(client) for client in active)
        candidates = [*self._latency_first(active, weights, effective)]
        if not candidates or not pauses:
            candidates.append(self._time_sliced(active, weights))
        if not any(blocks_slo(one, other) for one in active for other in active if one is not other):
            everything = [(client, WHOLE_MILLI) for client in active]
            candidates.append(
                ScoredConfiguration("unrestricted", sum(utility(t, m, _without(everything, t)) for t, m in everything))
            )
        if len(active) <= card.groups and not pauses:
            shares = [card.share_milli(count) for count in range(card.groups + 1)]
            current = self._current_split(active, card, shares, utility, state)
            if len(active) <= self.exact:
                candidates.append(ScoredConfiguration("strict", *best_counts(active, card.groups, shares, utility)))
            else:
                start = current[0].counts if current else ()
                found = hill_climbed_counts(active, card.groups, shares, utility, start)
                candidates.append(ScoredConfiguration("strict", *found))
            candidates += current
        return max(candidates, key=lambda one: one.score * (1.0 + self.stay * _is_current(one, active, state)))

    def utility(self, client: GpuClient, speed: float, weight: float) -> float:
        """``w * T_eff * Q``."""
        return weight * speed * min(predicted_attainment(client, speed), 1.0) ** self.sharp

    def _time_sliced(self, active: Sequence[GpuClient], weights: Mapping[str, float]) -> ScoredConfiguration:
        total = sum(weights[client.id] for client in active)
        return ScoredConfiguration(
            "temporal", sum(self.utility(one, weights[one.id] / total, weights[one.id]) for one in active)
        )

    def _latency_first(
        self, active: Sequence[GpuClient], weights: Mapping[str, float], effective: EffectiveRate
    ) -> Iterator[ScoredConfiguration]:
        """Clients with a latency SLO have the card while they need it; the others have the time that is left."""
        first = [client for client in active if client.has_latency_slo]
        rest = [client for client in active if not client.has_latency_slo]
        if not first or not rest:
            return
        left = max(0.0, 1.0 - sum(_busy(client) for client in first))
        score = 0.0
        for together, fraction in ((first, 1.0), (rest, left)):
            shares = [(client, WHOLE_MILLI) for client in together]
            for client in together:
                speed = fraction * effective(client, WHOLE_MILLI, _without(shares, client))
                score += self.utility(client, speed, weights[client.id])
        yield ScoredConfiguration("temporal", score, first=_squad_builder.slots(client.slot for client in first))

    def _current_split(
        self, active: Sequence[GpuClient], card: ShareableCard, shares: Sequence[int], utility: Utility,
        state: DivideState,
    ) -> list[ScoredConfiguration]:  # fmt: skip
        """The split of the last squad, if it covers exactly the active clients."""
        counts = _counts(active, state)
        if 0 in counts or sum(counts) != card.groups:
            return []
        pairs = [(client, shares[count]) for client, count in zip(active, counts, strict=True)]
        return [ScoredConfiguration("strict", sum(utility(t, milli, _without(pairs, t)) for t, milli in pairs), counts)]


def _counts_as_active(client: GpuClient) -> bool:
    """A service between two requests counts: the next one may come at any time and is late if nothing was decided."""
    return not client.is_idle or _pauses(client)


def _pauses(client: GpuClient) -> bool:
    return client.has_latency_slo and 0 < _busy(client) < _BUSY


def _kept(active: Sequence[GpuClient], card: ShareableCard, state: DivideState) -> ScoredConfiguration | None:
    """The last result. None: another policy has assigned the groups since."""
    before = state.get(SearchResult)
    configuration = cast("Configuration", before.configuration)
    if configuration != "strict":
        return ScoredConfiguration(configuration, 0.0, first=before.first)
    counts = _counts(active, state)
    return ScoredConfiguration(configuration, 0.0, counts) if 0 not in counts and sum(counts) == card.groups else None


def _busy(client: GpuClient) -> float:
    """Fraction of the time in which it needs the card, by its requests or as observed: others yield while it has work
    there."""
    known = client.requests.busy_ratio if client.requests is not None else 0.0
    return min(1.0, max(known, client.busy_ratio))


def _is_current(one: ScoredConfiguration, active: Sequence[GpuClient], state: DivideState) -> bool:
    same = one.configuration == state.get(SquadHistory).configuration
    return same and (one.configuration != "strict" or one.counts == _counts(active, state))


def _counts(active: Sequence[GpuClient], state: DivideState) -> tuple[int, ...]:
    groups = state.get(SquadHistory).groups
    return tuple(groups.get(client.id, 0).bit_count() for client in active)


def _without(pairs: Sequence[tuple[GpuClient, int]], client: GpuClient) -> tuple[tuple[GpuClient, int], ...]:
    return tuple(pair for pair in pairs if pair[0] is not client)


def _words(chosen: ScoredConfiguration, active: Sequence[GpuClient]) -> str:
    if chosen.counts:
        split = zip(active, chosen.counts, strict=True)
        return ", ".join(f"{count} groups for {client.id}" for client, count in split)
    if chosen.first:
        names = ", ".join(client.id for client in active if chosen.first >> client.slot & 1)
        return f"{names} first, others in the pauses"
    return "no restriction" if chosen.configuration == "unrestricted" else "time-sliced"
