"""Squads in which each client gets its fraction of the card.

| configuration | clients run |
|---|---|
| ``unrestricted`` | side by side on all SMs |
| ``strict`` | each on SM groups of its own |
| ``semi-spatial`` | as ``strict``, until a client with little work is done; then the others use the whole card |
| ``temporal`` | time-sliced |

Configurations are compared by the predicted rates: the score is the sum of ``fraction * log(rate)``. Doubling
the rate of one client compensates halving that of another with the same fraction, so no client is sacrificed.
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
from gpusquad.policies.divide._lags import ServiceLags, corrected, lags_us
from gpusquad.policies.divide._squad_builder import SquadHistory

_SWITCH_GAIN = 0.03
"""Score by which another configuration must be better, because a change moves every client."""
MAX_WAIT_SQUADS = 50
"""Time-sliced, no client waits for more squads than this, however small its fraction."""
_MIN_RATE = 1e-4
"""Keeps the logarithm finite."""
_EARLY = 0.5
"""A client with work for less than this fraction of a squad: when it is done, the others may use the whole card."""


@dataclass(frozen=True, slots=True)
class ScoredConfiguration:
    """A candidate configuration and its score."""

    configuration: Configuration
    score: float
    counts: tuple[int, ...] = ()
    """SM groups of each client."""
    first: int = 0
    """Mask of slots that all others yield to; 0: time-sliced, or none."""


def squad_by_fraction(
    clients: Sequence[GpuClient],
    fractions: Mapping[str, float],
    card: ShareableCard,
    effective: EffectiveRate,
    state: DivideState,
    default_us: int,
    why: str,
) -> Squad:
    """The next squad. ``fractions`` hold over time: lags of earlier squads are corrected. Idle clients do not count."""
    active = [client for client in clients if not client.is_idle] or list(clients)
    length_us = _squad_builder.length_us(clients, default_us)
    dues = _normalised({client.id: fractions[client.id] for client in active})
    lags = lags_us(clients, state, length_us)
    wanted = _normalised(corrected(dues, lags, length_us))
    best = best_configuration(active, wanted, card, effective, state)
    allocations = allocations_for(active, wanted, best, card, state, length_us, lags)
    semi = any(one.restricted_us for one in allocations)
    after = _squad_builder.state_after(clients, state, ServiceLags(lags, dues))
    configuration = "semi-spatial" if semi else best.configuration
    words = f"{why}; {_words(best, active)}"
    return _squad_builder.squad(allocations, clients, card, configuration, length_us, words, after)


def best_configuration(
    active: Sequence[GpuClient],
    fractions: Mapping[str, float],
    card: ShareableCard,
    effective: EffectiveRate,
    state: DivideState,
) -> ScoredConfiguration:
    """Time-slicing makes clients wait, so it must be better, not as good."""
    if len(active) == 1:
        return ScoredConfiguration("unrestricted", 0.0)
    candidates = [
        _side_by_side(active, fractions, effective),
        _in_groups(active, fractions, card, effective),
        _time_sliced(active, fractions),
    ]
    candidates = [one for one in candidates if one is not None]
    before = state.get(SquadHistory).configuration
    last = "strict" if before == "semi-spatial" else before
    return max(candidates, key=lambda one: one.score + (_SWITCH_GAIN if one.configuration == last else 0.0))


def allocations_for(
    active: Sequence[GpuClient],
    fractions: Mapping[str, float],
    chosen: ScoredConfiguration,
    card: ShareableCard,
    state: DivideState,
    length_us: int,
    lags: Mapping[str, float],
) -> list[_squad_builder.ClientAllocation]:
    """The configuration as group masks, credits and yield lists."""
    if chosen.configuration == "strict":
        mask_of = masks(active, chosen.counts, card, state.get(SquadHistory).groups)
        until_us = _release_us(active, length_us)
        ahead_us = _squad_builder.ahead_us(length_us)
        return [
            _squad_builder.ClientAllocation(
                client, mask_of[client.id], until_us if client.demand_us > until_us else 0, credit_us=ahead_us
            )
            for client in active
        ]
    queued_us = _squad_builder.queued_us(len(active), length_us)
    if chosen.first:
        return [
            _squad_builder.ClientAllocation(client)
            if chosen.first >> client.slot & 1
            else _squad_builder.ClientAllocation(client, yield_to=chosen.first, credit_us=queued_us)
            for client in active
        ]
    if chosen.configuration == "unrestricted":
        first = 1 << late.slot if (late := _far_behind(active, lags, length_us)) is not None else 0
        return [
            _squad_builder.ClientAllocation(client, yield_to=first, credit_us=queued_us, due=client.weight)
            for client in active
        ]
    there = [client for client in active if not client.is_idle] or active
    now = max(there, key=lambda client: (_turn(client, fractions, state), -client.slot))
    return [_squad_builder.ClientAllocation(now, credit_us=queued_us)]


def _far_behind(active: Sequence[GpuClient], lags: Mapping[str, float], length_us: int) -> GpuClient | None:
    """The client that is owed more than one squad. Side by side it goes first until that is compensated."""
    late = max(active, key=lambda client: lags.get(client.id, 0.0))
    return late if len(active) > 1 and lags.get(late.id, 0.0) > length_us else None


def _turn(client: GpuClient, fractions: Mapping[str, float], state: DivideState) -> tuple[bool, float]:
    """Sort key for the next slice: clients that waited too long, then squads waited (with this one) by fraction."""
    waited = state.get(SquadHistory).waited.get(client.id, 0)
    return waited >= MAX_WAIT_SQUADS, (waited + 1) * fractions[client.id]


def _release_us(active: Sequence[GpuClient], length_us: int) -> int:
    """Time for which clients are held to their groups if another finishes early. 0: none will."""
    early = [client.demand_us for client in active if 0 < client.demand_us < _EARLY * length_us]
    return max(early) if early and len(early) < len(active) else 0


def _side_by_side(
    active: Sequence[GpuClient], fractions: Mapping[str, float], effective: EffectiveRate
) -> ScoredConfiguration | None:
    """All clients with all SMs. None: a kernel of one could block the latency SLO of another."""
    if any(blocks_slo(blocks, waits) for waits in active for blocks in active if blocks is not waits):
        return None
    most = max(fractions.values())
    score = 0.0
    for client in active:
        others = tuple((other, WHOLE_MILLI) for other in active if other is not client)
        rate = effective(client, WHOLE_MILLI, others) * fractions[client.id] / most
        score += fractions[client.id] * log(max(rate, _MIN_RATE))
    return ScoredConfiguration("unrestricted", score)


def _in_groups(
    active: Sequence[GpuClient], fractions: Mapping[str, float], card: ShareableCard, effective: EffectiveRate
) -> ScoredConfiguration | None:
    if len(active) > card.groups:
        return None
    counts = tuple(apportioned([fractions[client.id] for client in active], card.groups))
    shares = [(client, card.share_milli(count)) for client, count in zip(active, counts, strict=True)]
    score = 0.0
    for client, share_milli in shares:
        others = tuple(pair for pair in shares if pair[0] is not client)
        score += fractions[client.id] * log(max(effective(client, share_milli, others), _MIN_RATE))
    return ScoredConfiguration("strict", score, counts)


def _time_sliced(active: Sequence[GpuClient], fractions: Mapping[str, float]) -> ScoredConfiguration:
    return ScoredConfiguration(
        "temporal", sum(fractions[client.id] * log(max(fractions[client.id], _MIN_RATE)) for client in active) - 1e-9
    )


def _normalised(fractions: Mapping[str, float]) -> dict[str, float]:
    total = sum(fractions.values())
    return {name: one / total if total > 0 else 1.0 / len(fractions) for name, one in fractions.items()}


def _words(chosen: ScoredConfiguration, active: Sequence[GpuClient]) -> str:
    if chosen.configuration == "strict":
        split = ", ".join(f"{client.id} {count}" for client, count in zip(active, chosen.counts, strict=True))
        return f"split into groups: {split}"
    if chosen.configuration == "temporal":
        return "time-sliced: no more work side by side"
    return "side by side" if len(active) > 1 else f"only {active[0].id} is active"
