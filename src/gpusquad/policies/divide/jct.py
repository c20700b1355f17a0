"""Jct: the shortest mean completion time. Shortest remaining time first, changed by who can share.

Whoever has ``r`` left and runs at speed ``v`` nears its end by ``v / r`` a squad. The company that makes the most of
the sum runs next. If nobody could share, that is the one with the least left, alone; two of the same length run
together as soon as the card does more work with both; a long one joins a short one where it costs that one little.
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
from gpusquad.registry import register

_SHORTEST = 4
"""Companies are made of so many with the least left: others weigh little beside them."""
_SPLITS = (0.25, 0.5, 0.75)
_LEAST_LEFT_US = 1000
_STAY = 0.03


@dataclass(frozen=True, slots=True)
class _Company:
    """Some who would run together."""

    clients: tuple[GpuClient, ...]
    configuration: Configuration
    nearing: float
    """How much they near their ends: the sum of weight times speed over what is left."""
    counts: tuple[int, ...] = ()


@register("divide", "jct")
@dataclass(frozen=True)
class Jct:
    """Shortest remaining time first, together with whom it can share; nobody waits for ever."""

    patience: int = 50
    """A tenant that wants the card has a squad after so many without."""
    most_together: int = 3
    """Companies up to this size are made in every way; larger ones of those with the least left."""
    squad_us: int = 2000

    def __post_init__(self) -> None:
        check(self, "divide.jct", patience=COUNT, most_together=(1, _SHORTEST), squad_us=SQUAD_US)

    def next_squad(
        self, clients: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, state: DivideState
    ) -> Squad:
        alone = _squad_builder.single_client_squad(clients, state)
        if alone is not None:
            return alone
        awake = [client for client in clients if not client.is_idle] or list(clients)
        length_us = _squad_builder.length_us(clients, self.squad_us)
        late = max(awake, key=lambda client: (state.waited.get(client.id, 0), -client.slot))
        if state.waited.get(late.id, 0) >= self.patience:
            company = self._best(awake, card, effective, state, late)
            why = f"{late.id} has waited for {self.patience} squads; {_words(company)}"
        else:
            company = self._best(awake, card, effective, state)
            why = _words(company)
        parts = _parts(company, _queued_us(company, clients, len(awake), length_us), card, state, length_us)
        return _squad_builder.squad(parts, clients, card, company.configuration, length_us, why, state)

    def _best(
        self,
        awake: Sequence[GpuClient],
        card: ShareableCard,
        effective: EffectiveRate,
        state: DivideState,
        late: GpuClient | None = None,
    ) -> _Company:
        """Of all companies, or of those with the one that has waited for long."""
        ranked = sorted(awake, key=lambda client: (_left_us(client) / max(client.weight, 1e-3), client.slot))
        if late is not None:
            ranked = [late, *(client for client in ranked if client is not late)]
        matrix = compatibility(ranked[:_SHORTEST], effective)
        ran = {client.id for client in awake if not state.waited.get(client.id, 0)}

        def worth(company: _Company) -> float:
            """Those who ran go on if as good: a change of company costs."""
            same = {client.id for client in company.clients} == ran and company.configuration == state.configuration
            return company.nearing * (1.0 + _STAY if same else 1.0)

        companies = self._companies(ranked, card, effective, matrix)
        return max((one for one in companies if late is None or late in one.clients), key=worth)

    def _companies(
        self, ranked: Sequence[GpuClient], card: ShareableCard, effective: EffectiveRate, matrix: Compatibility
    ) -> Iterator[_Company]:
        """Everybody up to some length of work left, and all small companies of those with the least."""
        near = ranked[:_SHORTEST]
        for size in range(self.most_together + 1, len(ranked) + 1):
            first = tuple(ranked[:size])
            if not any(blocks_slo(one, other) for one in first for other in first if one is not other):
                yield _together(first, "unrestricted", (WHOLE_MILLI,) * size, effective)
            for counts in _splits(size, card):
                yield _together(first, "strict", tuple(card.share_milli(n) for n in counts), effective, counts)
        for client in near:
            yield _Company((client,), "temporal" if len(near) > 1 else "unrestricted", _worth(client, 1.0))
        for size in range(2, min(self.most_together, len(near)) + 1):
            for chosen in combinations(near, size):
                if matrix.all_go(chosen):
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
) -> _Company:
    pairs = tuple(zip(chosen, shares, strict=True))
    nearing = sum(
        _worth(client, effective(client, share, tuple(pair for pair in pairs if pair[0] is not client)))
        for client, share in pairs
    )
    return _Company(chosen, configuration, nearing, counts)


def _splits(size: int, card: ShareableCard) -> list[tuple[int, ...]]:
    """Pairs at three splits, more at the even one: finer steps change little and cost time."""
    if size > card.groups:
        return []
    if size > 2:
        return [tuple(apportioned([1.0] * size, card.groups))]
    return sorted({tuple(apportioned([part, 1.0 - part], card.groups)) for part in _SPLITS})


def _worth(client: GpuClient, speed: float) -> float:
    return client.weight * speed / _left_us(client)


def _left_us(client: GpuClient) -> float:
    """Of one that nobody foretold: as much as it has had. What has run long will run long."""
    left_us = client.attained_us if client.remaining_us is None else client.remaining_us
    return float(max(left_us, _LEAST_LEFT_US))


def _queued_us(company: _Company, clients: Sequence[GpuClient], awake: int, length_us: int) -> int:
    """With all others standing still one may be as far ahead of the card as alone: where its program launches slower
    than the card works for a while, what it has queued is all that goes on. But nothing of that stands still for a
    service that wakes."""
    is_alone = company.configuration == "temporal" and not any(client.has_latency_slo for client in clients)
    return _squad_builder.queued_us(1 if is_alone else awake, length_us)


def _parts(
    company: _Company, queued_us: int, card: ShareableCard, state: DivideState, length_us: int
) -> list[_squad_builder.ClientAllocation]:
    """All others fill the pauses of these."""
    if company.configuration != "strict":
        return [
            _squad_builder.ClientAllocation(client, credit_us=queued_us, due=_worth(client, 1.0), minds_ends=True)
            for client in company.clients
        ]
    chosen = masks(company.clients, company.counts, card, state.groups)
    return [
        _squad_builder.ClientAllocation(client, chosen[client.id], credit_us=_squad_builder.ahead_us(length_us))
        for client in company.clients
    ]


def _words(company: _Company) -> str:
    names = " and ".join(client.id for client in company.clients)
    if len(company.clients) == 1:
        return f"{names} is nearest its end, and nobody could join without delaying that more than it gains"
    counts = f" on {'+'.join(map(str, company.counts))} groups" if company.counts else ""
    return f"{names} together{counts} near their ends faster than one of them alone"
