"""Jct: the shortest mean completion time, by shortest remaining time first among clients that can share.

A client with ``r`` left that runs at speed ``v`` completes the fraction ``v / r`` per squad. The set of clients with
the largest sum of these runs next. If none can share, that is the one with the least left, alone. Two of the same
length run together as soon as the card does more work with both. A long one joins a short one where that costs little.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpusquad.model.squad import Configuration, DivideState, EffectiveRate, GpuClient, ShareableCard, Squad
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies._bounds import check
from gpusquad.policies.divide import _squad_builder
from gpusquad.policies.divide._bounds import COUNT, SQUAD_US
from gpusquad.policies.divide._compatibility import Compatibility, blocks_slo, compatibility
from gpusquad.policies.divide._groups import apportioned, masks
from gpusquad.policies.divide._squad_builder import SquadHistory
from gpusquad.registry import register

_SHORTEST = 4
"""Number of clients with the least left that sets are built from. Others contribute little."""
_SPLITS = (0.25, 0.5, 0.75)
_MIN_LEFT_US = 1000
_SWITCH_GAIN = 0.03


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Clients that would run together."""

    clients: tuple[GpuClient, ...]
    configuration: Configuration
    progress: float
    """Sum of weight times speed over the work left."""
    counts: tuple[int, ...] = ()


@register("divide", "jct")
@dataclass(frozen=True)
class Jct:
    """Shortest remaining time first, with clients that can share; no client waits indefinitely."""

    patience: int = 50
    """Squads without an allocation after which a client with work gets one."""
    most_together: int = 3
    """Largest set for which all combinations are tried; larger sets are the clients with the least left."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(self, "divide.jct", patience=COUNT, most_together=(1, _SHORTEST), squad_us=SQUAD_US)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = _squad_builder.single_client_squad(clients, state)
        if alone is not None:
            return alone
        history = state.get(SquadHistory)
        active = [client for client in clients if not client.is_idle] or list(clients)
        length_us = _squad_builder.length_us(clients, self.squad_us)
        late = max(active, key=lambda client: (history.waited.get(client.id, 0), -client.slot))
        if history.waited.get(late.id, 0) >= self.patience:
            chosen = self._best(active, card, effective, history, late)
            why = f"{late.id} has waited for {self.patience} squads; {_words(chosen)}"
        else:
            chosen = self._best(active, card, effective, history)
            why = _words(chosen)
        queued_us = _queued_us(chosen, clients, len(active), length_us)
        allocations = _allocations(chosen, queued_us, card, history, length_us)
        return _squad_builder.squad(allocations, clients, card, chosen.configuration, length_us, why, state)

    def _best(
        self,
        active: Sequence[GpuClient],
        card: ShareableCard,
        effective: EffectiveRate,
        history: SquadHistory,
        late: GpuClient | None = None,
    ) -> _Candidate:
        """The best candidate. ``late``: only candidates with this client, which has waited too long."""
        ranked = sorted(active, key=lambda client: (_left_us(client) / max(client.weight, 1e-3), client.slot))
        if late is not None:
            ranked = [late, *(client for client in ranked if client is not late)]
        matrix = compatibility(ranked[:_SHORTEST], effective)
        ran = {client.id for client in active if not history.waited.get(client.id, 0)}

        def score(one: _Candidate) -> float:
            """The clients that ran continue if that is as good, because a change has a cost."""
            same = {client.id for client in one.clients} == ran and one.configuration == history.configuration
            return one.progress * (1.0 + _SWITCH_GAIN if same else 1.0)

        candidates = self._candidates(ranked, card, effective, matrix)
        return max((one for one in candidates if late is None or late in one.clients), key=score)

    def _candidates(
        self, ranked: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, matrix: Compatibility
    ) -> Iterator[_Candidate]:
        """Large sets in the order of the work left, and all small sets of the clients with the least."""
        near = ranked[:_SHORTEST]
        for size in range(self.most_together + 1, len(ranked) + 1):
            first = tuple(ranked[:size])
            if not any(blocks_slo(one, other) for one in first for other in first if one is not other):
                yield _together(first, "unrestricted", (WHOLE_MILLI,) * size, effective)
            for counts in _splits(size, card):
                yield _together(first, "strict", tuple(card.share_milli(n) for n in counts), effective, counts)
        for client in near:
            yield _Candidate((client,), "temporal" if len(near) > 1 else "unrestricted", _progress(client, 1.0))
        for size in range(2, min(self.most_together, len(near)) + 1):
            for chosen in combinations(near, size):
                if matrix.all_fit(chosen):
                    yield _together(chosen, "unrestricted", (WHOLE_MILLI,) * size, effective)
                for counts in _splits(size, card):
                    shares = tuple(card.share_milli(count) for count in counts)
                    yield _together(chosen, "strict", shares, effective, counts)


def _together(
    chosen: tuple[GpuClient, ...],
    configuration: Configuration,
    shares: tuple[int, ...],
    effective: EffectiveRate,
    counts: tuple[int, ...] = (),
) -> _Candidate:
    pairs = tuple(zip(chosen, shares, strict=True))
    progress = sum(
        _progress(client, effective(client, share, tuple(pair for pair in pairs if pair[0] is not client)))
        for client, share in pairs
    )
    return _Candidate(chosen, configuration, progress, counts)


def _splits(size: int, card: ShareableCard) -> list[tuple[int, ...]]:
    """Three splits for pairs, the even one for more clients: finer steps change little and take time."""
    if size > card.groups:
        return []
    if size > 2:
        return [tuple(apportioned([1.0] * size, card.groups))]
    return sorted({tuple(apportioned([part, 1.0 - part], card.groups)) for part in _SPLITS})


def _progress(client: GpuClient, speed: float) -> float:
    return client.weight * speed / _left_us(client)


def _left_us(client: GpuClient) -> float:
    """Work left. If unknown, as much as it has had: what has run long will run long."""
    left_us = client.attained_us if client.remaining_us is None else client.remaining_us
    return float(max(left_us, _MIN_LEFT_US))


def _queued_us(chosen: _Candidate, clients: Sequence[GpuClient], active: int, length_us: int) -> int:
    """While all others yield, one client may queue as much as alone: if its program launches more slowly than the card
    works for a while, only queued work keeps the card busy. Such a long queue would not yield to a service that wakes,
    so it is not allowed beside a latency SLO."""
    is_alone = chosen.configuration == "temporal" and not any(client.has_latency_slo for client in clients)
    return _squad_builder.queued_us(1 if is_alone else active, length_us)


def _allocations(
    chosen: _Candidate, queued_us: int, card: ShareableCard, history: SquadHistory, length_us: int
) -> list[_squad_builder.ClientAllocation]:
    """All other clients fill the pauses of these."""
    if chosen.configuration != "strict":
        return [
            _squad_builder.ClientAllocation(client, credit_us=queued_us, due=_progress(client, 1.0), by_remaining=True)
            for client in chosen.clients
        ]
    mask_of = masks(chosen.clients, chosen.counts, card, history.groups)
    return [
        _squad_builder.ClientAllocation(client, mask_of[client.id], credit_us=_squad_builder.ahead_us(length_us))
        for client in chosen.clients
    ]


def _words(chosen: _Candidate) -> str:
    names = " and ".join(client.id for client in chosen.clients)
    if len(chosen.clients) == 1:
        return f"{names} is nearest its end; any other client would delay it more than it gains"
    counts = f" on {'+'.join(map(str, chosen.counts))} groups" if chosen.counts else ""
    return f"{names} together{counts} progress faster than one of them alone"
