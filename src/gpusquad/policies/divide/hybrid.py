"""Hybrid: the split of the card that makes the most of ``sum of w * T_eff(s) * Q(goals at s)``.

``T_eff`` is the speed a tenant would have with these shares, over that alone. ``Q`` is how far its goals would be met
at that speed, to a power that says how much a near miss counts: it looks at the shares being tried, not at how things
are, or a tenant that fails would be given up while its weight grows. Weights follow
``w * exp(alpha * (target - actual))``.

Every way to hand out the groups, at least one each and none left over, is considered; for up to ``exact`` tenants the
best is found without fail. Whatever cannot be better than the best so far is passed over: nobody runs faster than with
all others at one group. So is the card without restriction, by turns, and with those first who have a latency target.
Beside a service that pauses there are neither turns nor groups: it would stand still in others' turns, and its groups
in its pauses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from gpusquad.model.squad import Configuration, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies._bounds import check
from gpusquad.policies.divide import _squad_builder
from gpusquad.policies.divide._bounds import COUNT, PART, SQUAD_US
from gpusquad.policies.divide._compatibility import blocks_slo
from gpusquad.policies.divide._configurations import ScoredConfiguration, given_parts
from gpusquad.policies.divide._search import Worth, best_counts, climbed_counts
from gpusquad.policies.divide._slo import predicted_attainment
from gpusquad.policies.divide._weights import updated
from gpusquad.registry import register

_BUSY = 0.9
"""A service that is busy for more of the time has no pauses worth speaking of."""
_MOST_EXACT = 6
"""The ways to hand out groups grow so fast with the tenants: with seven a search takes most of a second, and a daemon
that is silent for one is taken for dead."""


@register("divide", "hybrid")
@dataclass(frozen=True)
class Hybrid:
    """The most weighted work, as far as it meets goals: the best split there is, weights raised by misses."""

    alpha: float = 0.002
    """Small: whether a goal is met is seen of the last seconds, which are thousands of squads."""
    ease: float = 0.0002
    sharp: float = 2.0
    """The power by which a missed goal counts."""
    exact: int = 5
    """Up to so many tenants the split is the best there is; for more it is climbed to."""
    stay: float = 0.02
    """A new split must be better by so much: moving costs a little."""
    keep: int = 25
    """For so many squads what was found is kept while the same are awake: with several tenants a search takes longer
    than a squad, and what it goes by changes slowly."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(
            self, "divide.hybrid", alpha=PART, ease=PART, sharp=(0, 10), exact=(0, _MOST_EXACT), stay=PART, keep=COUNT,
            squad_us=SQUAD_US,
        )  # fmt: skip

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = _squad_builder.single_client_squad(clients, state)
        if alone is not None:
            return alone
        weights = updated(clients, state.weights, self.alpha, self.ease)
        state = _squad_builder.fresh(clients, state, weights=weights)
        awake = [client for client in clients if _counts_as_awake(client)] or list(clients)
        length_us = _squad_builder.length_us(clients, self.squad_us)
        if len(awake) == 1:
            parts = [_squad_builder.ClientAllocation(awake[0], credit_us=_squad_builder.queued_us(1, length_us))]
            why = f"only {awake[0].id} is awake"
            return _squad_builder.squad(parts, clients, card, "unrestricted", length_us, why, state)
        names = tuple(f"{client.id} {client.slot}" for client in awake)
        kept = _kept(awake, card, state) if state.found_for == names and 0 < state.found_ago < self.keep else None
        way = kept or self.best(awake, weights, card, effective, state)
        found_ago = state.found_ago + 1 if kept else 1
        state = replace(state, found_for=names, found_ago=found_ago, found=way.configuration, first=way.first)
        parts = [
            replace(part, minds_ends=True)
            for part in given_parts(awake, weights, way, card, state, length_us, {})
            if not part.client.is_idle
        ]
        why = _words(way, awake) + (", as found before" if kept else f": {way.score:.3f} of weighted work")
        return _squad_builder.squad(parts, clients, card, way.configuration, length_us, why, state)

    def best(
        self, awake: Sequence[GpuClient], weights: Mapping[str, float], card: ShareableCard, effective: EffectiveRate,
        state: DivideState,
    ) -> ScoredConfiguration:  # fmt: skip
        """The best configuration; the one that stands, where that is nearly as good."""

        def worth(client: GpuClient, share_milli: int, others: Sequence[tuple[GpuClient, int]]) -> float:
            return self.worth(client, effective(client, share_milli, others), weights[client.id])

        pauses = any(_pauses(client) for client in awake)
        ways = [*self._latency_first(awake, weights, effective)]
        if not ways or not pauses:
            ways.append(self._turns(awake, weights))
        if not any(blocks_slo(one, other) for one in awake for other in awake if one is not other):
            everything = [(client, WHOLE_MILLI) for client in awake]
            ways.append(
                ScoredConfiguration("unrestricted", sum(worth(t, m, _without(everything, t)) for t, m in everything))
            )
        if len(awake) <= card.groups and not pauses:
            shares = [card.share_milli(count) for count in range(card.groups + 1)]
            standing = self._standing(awake, card, shares, worth, state)
            if len(awake) <= self.exact:
                ways.append(ScoredConfiguration("strict", *best_counts(awake, card.groups, shares, worth)))
            else:
                start = standing[0].counts if standing else ()
                ways.append(ScoredConfiguration("strict", *climbed_counts(awake, card.groups, shares, worth, start)))
            ways += standing
        return max(ways, key=lambda way: way.score * (1.0 + self.stay * _stands(way, awake, state)))

    def worth(self, client: GpuClient, speed: float, weight: float) -> float:
        """``w * T_eff * Q``."""
        return weight * speed * min(predicted_attainment(client, speed), 1.0) ** self.sharp

    def _turns(self, awake: Sequence[GpuClient], weights: Mapping[str, float]) -> ScoredConfiguration:
        total = sum(weights[client.id] for client in awake)
        return ScoredConfiguration("temporal", sum(self.worth(t, weights[t.id] / total, weights[t.id]) for t in awake))

    def _latency_first(
        self, awake: Sequence[GpuClient], weights: Mapping[str, float], effective: EffectiveRate
    ) -> Iterator[ScoredConfiguration]:
        """Those with a latency target have the card while they need it; the others what time that leaves."""
        first = [client for client in awake if client.has_latency_slo]
        rest = [client for client in awake if not client.has_latency_slo]
        if not first or not rest:
            return
        left = max(0.0, 1.0 - sum(_busy(client) for client in first))
        score = 0.0
        for company, part in ((first, 1.0), (rest, left)):
            shares = [(client, WHOLE_MILLI) for client in company]
            for client in company:
                speed = part * effective(client, WHOLE_MILLI, _without(shares, client))
                score += self.worth(client, speed, weights[client.id])
        yield ScoredConfiguration("temporal", score, first=_squad_builder.slots(client.slot for client in first))

    def _standing(
        self, awake: Sequence[GpuClient], card: ShareableCard, shares: Sequence[int], worth: Worth, state: DivideState
    ) -> list[ScoredConfiguration]:
        """The split of the last squad, if it is one of those awake now."""
        counts = _counts(awake, state)
        if 0 in counts or sum(counts) != card.groups:
            return []
        pairs = [(client, shares[count]) for client, count in zip(awake, counts, strict=True)]
        return [ScoredConfiguration("strict", sum(worth(t, milli, _without(pairs, t)) for t, milli in pairs), counts)]


def _counts_as_awake(client: GpuClient) -> bool:
    """A service between two requests does: the next one comes without asking, and is late if nothing was decided."""
    return not client.is_idle or _pauses(client)


def _pauses(client: GpuClient) -> bool:
    return client.has_latency_slo and 0 < _busy(client) < _BUSY


def _kept(awake: Sequence[GpuClient], card: ShareableCard, state: DivideState) -> ScoredConfiguration | None:
    """What was found last. None: somebody else has handed out the groups since."""
    configuration = cast("Configuration", state.found)
    if configuration != "strict":
        return ScoredConfiguration(configuration, 0.0, first=state.first)
    counts = _counts(awake, state)
    return ScoredConfiguration(configuration, 0.0, counts) if 0 not in counts and sum(counts) == card.groups else None


def _busy(client: GpuClient) -> float:
    """The part of the time in which it needs the card, by its requests or as it is seen: others stand still for as long
    as something of it is there."""
    known = client.requests.busy_ratio if client.requests is not None else 0.0
    return min(1.0, max(known, client.busy_ratio))


def _stands(way: ScoredConfiguration, awake: Sequence[GpuClient], state: DivideState) -> bool:
    same = way.configuration == state.configuration
    return same and (way.configuration != "strict" or way.counts == _counts(awake, state))


def _counts(awake: Sequence[GpuClient], state: DivideState) -> tuple[int, ...]:
    return tuple(state.groups.get(client.id, 0).bit_count() for client in awake)


def _without(pairs: Sequence[tuple[GpuClient, int]], client: GpuClient) -> tuple[tuple[GpuClient, int], ...]:
    return tuple(pair for pair in pairs if pair[0] is not client)


def _words(way: ScoredConfiguration, awake: Sequence[GpuClient]) -> str:
    if way.counts:
        return ", ".join(f"{count} groups for {client.id}" for client, count in zip(awake, way.counts, strict=True))
    if way.first:
        names = ", ".join(client.id for client in awake if way.first >> client.slot & 1)
        return f"{names} first, others in the pauses"
    return "no restriction" if way.configuration == "unrestricted" else "by turns"
