"""Slo: goals first, and what they leave to everybody else.

- Tenants with a latency target run at once, on all SMs. Beside them the others keep out of as many groups as the target
  needs, and have little queued, so that what they borrow comes back in time.
- Tenants with a throughput target or a deadline hold as many groups as that takes.
- A goal that is missed raises a weight, and with it what is held for it.
- Whatever is not needed, or not used now, works for the rest.

Memory is held by quotas, which always stand: unlike SMs it could not be taken back from whoever borrowed it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.model.squad import UNGATED_US, CardFacts, Effective, Squad, State, Tenant
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.policies.divide import _build
from gpusquad.policies.divide._goals import foretold, needed_speed
from gpusquad.policies.divide._groups import apportioned, masks
from gpusquad.policies.divide._split import by_parts
from gpusquad.policies.divide._weights import updated
from gpusquad.registry import register

_MOST_RAISE = 3.0


@register("divide", "slo")
@dataclass(frozen=True)
class SloFirst:
    """Goals of latency, throughput and deadline first, more for those at risk; the rest of the card is lent."""

    margin: float = 1.1
    """Goals are planned to be met with so much to spare."""
    alpha: float = 0.05
    """How fast a missed goal raises a weight: a squad that misses it wholly, by this part."""
    ease: float = 0.0002
    """How fast a weight goes back once the goal is met: in thousands of squads, which are seconds, as the window is in
    which it is seen whether the goal is met."""
    patience: int = 20
    """Tenants without a goal may be kept off the card for so many squads in a row, where that serves them too."""
    squad_us: int = 1000

    def next_squad(self, tenants: Sequence[Tenant], card: CardFacts, effective: Effective, state: State) -> Squad:
        alone = _build.nobody_to_share_with(tenants, state)
        if alone is not None:
            return alone
        weights = updated(tenants, state.weights, self.alpha, self.ease)
        state = _build.fresh(tenants, state, weights=weights)
        awake = [tenant for tenant in tenants if not tenant.is_idle] or list(tenants)
        goals = [tenant for tenant in awake if tenant.has_goal]
        if not goals:
            return self._all_lent(tenants, weights, card, effective, state)
        return self._goals_first(tenants, awake, goals, weights, card, effective, state)

    def _all_lent(
        self, tenants: Sequence[Tenant], weights: Mapping[str, float], card: CardFacts, effective: Effective,
        state: State,
    ) -> Squad:  # fmt: skip
        parts = {tenant.id: weights[tenant.id] for tenant in tenants}
        return by_parts(tenants, parts, card, effective, state, self.squad_us, "no goal is waiting: all is lent")

    def _goals_first(
        self, tenants: Sequence[Tenant], awake: Sequence[Tenant], goals: Sequence[Tenant],
        weights: Mapping[str, float], card: CardFacts, effective: Effective, state: State,
    ) -> Squad:  # fmt: skip
        length_us = _build.length_us(tenants, card, self.squad_us)
        credit_us = int(_build.AHEAD * length_us)
        rest = [tenant for tenant in awake if not tenant.has_goal]
        waited = max((state.waited.get(tenant.id, 0) for tenant in rest), default=0)
        held = self._held(goals, rest, weights, card, effective, waited < self.patience)
        split = [tenant for tenant in goals if not tenant.has_latency_goal]
        left = card.groups - sum(held.values())
        rest = rest if left > 0 else []
        chosen = _masks(split, rest, held, left, weights, card, state)
        most = max((weights[tenant.id] for tenant in rest), default=1.0)
        shared = len(rest) > left
        parts = [_build.Part(tenant, UNGATED_US) for tenant in goals if tenant.has_latency_goal]
        parts += [_build.Part(tenant, credit_us, chosen[tenant.id]) for tenant in split]
        for tenant in rest:
            part_us = max(1, int(credit_us * weights[tenant.id] / most)) if shared else credit_us
            parts.append(_build.Part(tenant, part_us, chosen[tenant.id]))
        if len(parts) == 1:
            parts = [_build.Part(parts[0].tenant, parts[0].credit_us)]
        configuration = "strict" if any(part.groups for part in parts) else "unrestricted"
        why = _words(goals, held, rest, max(left, 0))
        return _build.squad(parts, tenants, card, configuration, length_us, why, state)

    def _held(
        self, goals: Sequence[Tenant], rest: Sequence[Tenant], weights: Mapping[str, float], card: CardFacts,
        effective: Effective, all_of_it: bool,
    ) -> dict[str, int]:  # fmt: skip
        """Groups for each goal, the most important first; the last ones may go short. One group stays for the rest."""
        left = card.groups - (1 if rest else 0)
        held: dict[str, int] = {}
        ranked = sorted(goals, key=lambda tenant: (-tenant.priority, -weights[tenant.id], tenant.slot))
        for at, tenant in enumerate(ranked):
            room = max(left - (len(ranked) - at - 1), 0)
            others = [other for other in (*goals, *rest) if other is not tenant]
            needed = min(self._needed(tenant, others, weights[tenant.id], card, effective), room)
            most = card.groups if all_of_it and len(goals) == 1 else room
            held[tenant.id] = _sooner_idle(tenant, rest, needed, most, card, effective)
            left -= held[tenant.id]
        return held

    def _needed(
        self, tenant: Tenant, others: Sequence[Tenant], weight: float, card: CardFacts, effective: Effective
    ) -> int:
        """The fewest groups with which its goals would be met, by halving: more never make it slower."""
        if needed_speed(tenant) is None:
            return max(1, round(card.groups * weight / (weight + len(others))))
        spare = self.margin * min(max(weight, 1.0), _MOST_RAISE)

        def meets(groups: int) -> bool:
            beside = card.share_milli(max(1, (card.groups - groups) // max(len(others), 1)))
            own = WHOLE_MILLI if tenant.has_latency_goal else card.share_milli(groups)
            speed = effective(tenant, own, tuple((other, beside) for other in others))
            return foretold(tenant, speed) >= spare

        low, high = 1, card.groups
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if meets(middle) else (middle + 1, high)
        return high


def _sooner_idle(
    tenant: Tenant, rest: Sequence[Tenant], needed: int, most: int, card: CardFacts, effective: Effective
) -> int:
    """Groups that leave the most to the rest over time. More than a latency target needs may leave more: the sooner a
    request is done, the sooner all of the card is lent again. All of it is a choice as well: a kernel that was started
    on few groups stays there to its end, while the others are free again."""
    requests = tenant.requests
    if not rest or requests is None or not tenant.has_latency_goal or requests.per_s * requests.work_us <= 0:
        return needed

    def left_to_rest(groups: int) -> float:
        beside = card.share_milli(max(1, (card.groups - groups) // len(rest)))
        speed = effective(tenant, WHOLE_MILLI, tuple((other, beside) for other in rest))
        busy = min(1.0, requests.per_s * requests.work_us / 1e6 / max(speed, 1e-3))
        if groups >= card.groups:
            return 1.0 - min(1.0, requests.per_s * requests.work_us / 1e6)
        speeds = [effective(other, beside, ((tenant, WHOLE_MILLI),)) for other in rest]
        meanwhile = sum(speeds) / len(rest)
        tail_us = sum(other.kernel_us / max(at, 1e-3) for other, at in zip(rest, speeds, strict=True)) / len(rest)
        lost = min(1.0 - busy, requests.per_s * tail_us / 1e6) * (1.0 - meanwhile)
        return 1.0 - busy + busy * meanwhile - lost

    return max(sorted({needed, (needed + most + 1) // 2, min(most, card.groups - 1), most}), key=left_to_rest)


def _masks(
    split: Sequence[Tenant], rest: Sequence[Tenant], held: Mapping[str, int], left: int,
    weights: Mapping[str, float], card: CardFacts, state: State,
) -> dict[str, int]:  # fmt: skip
    """What nobody needs goes to those without a goal; if there are none, to those that hold groups already. Where more
    are without a goal than groups are left, they share them."""
    own = [held[tenant.id] for tenant in split]
    if not rest:
        more = apportioned([float(count) for count in own], left) if left > 0 else [0] * len(split)
        return masks(split, [count + extra for count, extra in zip(own, more, strict=True)], card, state.groups)
    if len(rest) <= left:
        counts = own + apportioned([weights[tenant.id] for tenant in rest], left)
        return masks([*split, *rest], counts, card, state.groups)
    found = masks([*split, rest[0]], [*own, max(left, 1)], card, state.groups)
    return {**found, **{tenant.id: found[rest[0].id] for tenant in rest}}


def _words(goals: Sequence[Tenant], held: Mapping[str, int], rest: Sequence[Tenant], left: int) -> str:
    told = ", ".join(f"{held[tenant.id]} groups for {tenant.id}" for tenant in goals)
    names = ", ".join(tenant.id for tenant in rest)
    return f"held by need: {told}" + (f"; {left} left for {names}" if rest else "")
