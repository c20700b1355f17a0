"""A squad in which each gets its part: by SM groups, side by side, or by turns, whichever does most work.

The three are compared by what each tenant's speed would be, by the sum of ``part * log(speed)``: twice the speed of one
makes good half the speed of another with the same part, so neither is given up for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

from gpusquad.model.squad import Configuration, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies.divide import _squad_builder
from gpusquad.policies.divide._compatibility import blocks_slo
from gpusquad.policies.divide._groups import apportioned, masks
from gpusquad.policies.divide._lags import lags_us, leaning

_STAY = 0.03
"""Another configuration must be better by so much: a change moves everybody."""
PATIENCE = 50
"""By turns nobody waits for more squads than this, however small its part."""
_SLOWEST = 1e-4
_EARLY = 0.5
"""Who has work for less than this part of a squad lets the others out of their groups when it is done."""


@dataclass(frozen=True, slots=True)
class ScoredConfiguration:
    """One configuration, and how good it would be."""

    configuration: Configuration
    score: float
    counts: tuple[int, ...] = ()
    first: int = 0
    """Slots that all others yield to; 0: by turns, or nobody."""


def by_parts(
    clients: Sequence[GpuClient],
    parts: Mapping[str, float],
    card: ShareableCard,
    effective: EffectiveRate,
    state: DivideState,
    default_us: int,
    why: str,
) -> Squad:
    """``parts``: what is due to each; only those who are awake count."""
    awake = [client for client in clients if not client.is_idle] or list(clients)
    length_us = _squad_builder.length_us(clients, default_us)
    dues = _normal({client.id: parts[client.id] for client in awake})
    lags = lags_us(clients, state, length_us)
    leant = _normal(leaning(dues, lags, length_us))
    way = best_way(awake, leant, card, effective, state)
    given = given_parts(awake, leant, way, card, state, length_us, lags)
    semi = any(part.restricted_us for part in given)
    after = _squad_builder.fresh(clients, state, lags_us=lags, dues=dues)
    names = "semi-spatial" if semi else way.configuration
    return _squad_builder.squad(given, clients, card, names, length_us, f"{why}; {_words(way, awake)}", after)


def best_way(
    awake: Sequence[GpuClient],
    parts: Mapping[str, float],
    card: ShareableCard,
    effective: EffectiveRate,
    state: DivideState,
) -> ScoredConfiguration:
    """Whoever runs by turns keeps others waiting, so turns must be better, not as good."""
    if len(awake) == 1:
        return ScoredConfiguration("unrestricted", 0.0)
    ways = [_side_by_side(awake, parts, effective), _in_groups(awake, parts, card, effective), _by_turns(awake, parts)]
    ways = [way for way in ways if way is not None]
    last = "strict" if state.configuration == "semi-spatial" else state.configuration
    return max(ways, key=lambda way: way.score + (_STAY if way.configuration == last else 0.0))


def given_parts(
    awake: Sequence[GpuClient],
    parts: Mapping[str, float],
    way: ScoredConfiguration,
    card: ShareableCard,
    state: DivideState,
    length_us: int,
    lags: Mapping[str, float],
) -> list[_squad_builder.ClientAllocation]:
    """The way as masks, and as who goes first."""
    if way.configuration == "strict":
        chosen = masks(awake, way.counts, card, state.groups)
        until_us = _let_out_us(awake, length_us)
        ahead_us = _squad_builder.ahead_us(length_us)
        return [
            _squad_builder.ClientAllocation(
                client, chosen[client.id], until_us if client.demand_us > until_us else 0, credit_us=ahead_us
            )
            for client in awake
        ]
    queued_us = _squad_builder.queued_us(len(awake), length_us)
    if way.first:
        return [
            _squad_builder.ClientAllocation(client)
            if way.first >> client.slot & 1
            else _squad_builder.ClientAllocation(client, yield_to=way.first, credit_us=queued_us)
            for client in awake
        ]
    if way.configuration == "unrestricted":
        first = 1 << late.slot if (late := _far_behind(awake, lags, length_us)) is not None else 0
        return [
            _squad_builder.ClientAllocation(client, yield_to=first, credit_us=queued_us, due=client.weight)
            for client in awake
        ]
    there = [client for client in awake if not client.is_idle] or awake
    now = max(there, key=lambda client: (_turn(client, parts, state), -client.slot))
    return [_squad_builder.ClientAllocation(now, credit_us=queued_us)]


def _far_behind(awake: Sequence[GpuClient], lags: Mapping[str, float], length_us: int) -> GpuClient | None:
    """Side by side each takes what it can get. Who is owed more than a squad goes first until it is made good."""
    late = max(awake, key=lambda client: lags.get(client.id, 0.0))
    return late if len(awake) > 1 and lags.get(late.id, 0.0) > length_us else None


def _turn(client: GpuClient, parts: Mapping[str, float], state: DivideState) -> tuple[bool, float]:
    """Whose turn it is: who has waited too long, then who has waited for most of its part, this squad counted."""
    waited = state.waited.get(client.id, 0)
    return waited >= PATIENCE, (waited + 1) * parts[client.id]


def _let_out_us(awake: Sequence[GpuClient], length_us: int) -> int:
    """When somebody will be done early, others are held to their groups until then. 0: nobody will."""
    early = [client.demand_us for client in awake if 0 < client.demand_us < _EARLY * length_us]
    return max(early) if early and len(early) < len(awake) else 0


def _side_by_side(
    awake: Sequence[GpuClient], parts: Mapping[str, float], effective: EffectiveRate
) -> ScoredConfiguration | None:
    """All with all SMs. Not where a kernel of one would keep another with a latency target waiting."""
    if any(blocks_slo(blocks, waits) for waits in awake for blocks in awake if blocks is not waits):
        return None
    most = max(parts.values())
    score = 0.0
    for client in awake:
        others = tuple((other, WHOLE_MILLI) for other in awake if other is not client)
        speed = effective(client, WHOLE_MILLI, others) * parts[client.id] / most
        score += parts[client.id] * log(max(speed, _SLOWEST))
    return ScoredConfiguration("unrestricted", score)


def _in_groups(
    awake: Sequence[GpuClient], parts: Mapping[str, float], card: ShareableCard, effective: EffectiveRate
) -> ScoredConfiguration | None:
    if len(awake) > card.groups:
        return None
    counts = tuple(apportioned([parts[client.id] for client in awake], card.groups))
    shares = [(client, card.share_milli(count)) for client, count in zip(awake, counts, strict=True)]
    score = 0.0
    for client, share_milli in shares:
        others = tuple(pair for pair in shares if pair[0] is not client)
        score += parts[client.id] * log(max(effective(client, share_milli, others), _SLOWEST))
    return ScoredConfiguration("strict", score, counts)


def _by_turns(awake: Sequence[GpuClient], parts: Mapping[str, float]) -> ScoredConfiguration:
    return ScoredConfiguration(
        "temporal", sum(parts[client.id] * log(max(parts[client.id], _SLOWEST)) for client in awake) - 1e-9
    )


def _normal(parts: Mapping[str, float]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: part / total if total > 0 else 1.0 / len(parts) for name, part in parts.items()}


def _words(way: ScoredConfiguration, awake: Sequence[GpuClient]) -> str:
    if way.configuration == "strict":
        split = ", ".join(f"{client.id} {count}" for client, count in zip(awake, way.counts, strict=True))
        return f"split into groups: {split}"
    if way.configuration == "temporal":
        return "by turns: side by side they would do no more"
    return "side by side" if len(awake) > 1 else f"only {awake[0].id} is awake"
