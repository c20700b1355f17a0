"""Cost of placing a job beside the sharers of a card, for all of them, by predicted rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, log2
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Ints
from gpusquad.model.views import LeftUs, SpaceView
from gpusquad.policies.place._completion import ends

Weight = Callable[[Job], float]
"""Weight of a job's loss."""
Goal = Literal["jct", "work"]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CoLocationCost:
    """Cost of joining some jobs on a card."""

    loss: float
    """Total loss of the new job and its neighbours, each weighted relative to the new job. Infinite: they do not fit.
    Goal "work": in units of a job's speed alone; at 1 the card would do no more work than without the new job. Goal
    "jct": total delay of all ends, in units of the new job's run time."""
    own_rate: float
    others_loss: float
    """Sum of the neighbours' lost rates, unweighted."""
    turns: float = 1.0
    """Cost of waiting until they have ended, in the same unit."""


_APART = 0x5851F42D4C957F2D
"""Separates equal neighbours on cards of different models."""
_STEPS = 4
"""Steps per doubling. Times within one step are treated as equal, so that one evaluation serves many cards."""
NOT_TOGETHER = CoLocationCost(inf, 0.0, inf)


def joining(job: Job, company: Sequence[Job], gpu: str, rate: Rate, weight: Weight) -> CoLocationCost:
    """Cost by rates. Losses are never negative: a neighbour never makes a job faster, even if predicted."""
    if not company:
        return CoLocationCost(0.0, 1.0, 0.0)
    own_rate = min(rate(job, company, gpu), 1.0)
    if own_rate <= 0:
        return NOT_TOGETHER
    loss, others_loss, own_weight = 1.0 - own_rate, 0.0, weight(job)
    for place, other in enumerate(company):
        beside = [*company[:place], *company[place + 1 :]]
        before = min(rate(other, beside, gpu), 1.0) if beside else 1.0
        after = rate(other, [*beside, job], gpu)
        if after <= 0:
            return NOT_TOGETHER
        lost = max(before - after, 0.0)
        others_loss += lost
        loss += lost * weight(other) / own_weight
    return CoLocationCost(loss, own_rate, others_loss)


def later_by_joining(job: Job, own_left: float, company: Sequence[Job], lefts: Sequence[float], gpu: str, rate: Rate,
                     weight: Weight) -> CoLocationCost:  # fmt: skip
    """Cost by ends. ``lefts``: remaining time of each neighbour beside the others; ``own_left``: alone."""
    by_speed = joining(job, company, gpu, rate, weight)
    if not company or by_speed.loss == inf:
        return by_speed
    work = [(other, left * _speed(other, company, gpu, rate)) for other, left in zip(company, lefts, strict=True)]
    without, beside = ends(work, gpu, rate), ends([*work, (job, own_left)], gpu, rate)
    later = beside[-1] - own_left
    for other, before, after in zip(company, without, beside, strict=False):
        later += weight(other) / weight(job) * (after - before)
    return CoLocationCost(max(later, 0.0) / own_left, by_speed.own_rate, by_speed.others_loss, max(without) / own_left)


def _speed(other: Job, company: Sequence[Job], gpu: str, rate: Rate) -> float:
    beside = [one for one in company if one is not other]
    return min(max(rate(other, beside, gpu), 0.0), 1.0) if beside else 1.0


class NeighbourSets:
    """Costs of the sets of neighbours that a job could join. Equal sets on several cards are evaluated once."""

    def __init__(self, job: Job, space: SpaceView, rate: Rate, weight: Weight, goal: Goal = "work",
                 left_us: LeftUs | None = None) -> None:  # fmt: skip
        self._job, self._space, self._rate, self._weight = job, space, rate, weight
        self._by_ends = goal == "jct"
        self._left_us = left_us or (lambda job: None)
        self._known: dict[tuple, CoLocationCost] = {}

    def losses(self, cards: Ints) -> tuple[Floats, Floats]:
        """Loss on each of these cards, and the cost of waiting for it."""
        found = np.zeros((2, len(cards)))
        if self._by_ends:
            found[:] = self._each(cards)
            return found[0], found[1]
        changes = np.isin(cards, list(self._space.expected_sharers))
        found[:, ~changes] = self._by_kind(cards[~changes])
        found[:, changes] = self._each(cards[changes])
        return found[0], found[1]

    def _each(self, cards: Ints) -> Floats:
        looks = [self.on(card) for card in cards.tolist()]
        return np.array([[look.loss for look in looks], [look.turns for look in looks]], dtype=float)

    def _by_kind(self, cards: Ints) -> Floats:
        space = self._space
        kinds = space.card_neighbours_key[cards] ^ (space.fixed.card_model[cards] * _APART)
        _, first, kind_of = np.unique(kinds, return_index=True, return_inverse=True)
        return self._each(cards[first])[:, kind_of]

    def on(self, card: int) -> CoLocationCost:
        """Cost on a card. If reservations bring further sharers later, the highest cost over time."""
        space = self._space
        model, company = int(space.fixed.card_model[card]), space.sharers.get(card, ())
        steps = tuple(map(self._step, company)) if self._by_ends else ()
        key = (int(space.card_neighbours_key[card]), model, tuple(sorted(steps, key=str)))
        now = self._known.get(key)
        if now is None:
            now = self._known[key] = self._joining(company, steps, model)
        later = [
            self._joining(those, tuple(map(self._step, those)), model) for those in space.expected_sharers.get(card, ())
        ]
        return max(now, *later, key=lambda one: one.loss) if later else now

    def _joining(self, company: Sequence[Job], steps: Sequence[int | None], model: int) -> CoLocationCost:
        gpu = self._space.fixed.models[model]
        own_step = self._step(self._job)
        if not self._by_ends:
            return joining(self._job, company, gpu, self._rate, self._weight)
        # A job without a prediction is assumed to take as long as the new one.
        own_left = 1.0 if own_step is None else 2.0 ** (own_step / _STEPS)
        lefts = [own_left if step is None or own_step is None else 2.0 ** (step / _STEPS) for step in steps]
        return later_by_joining(self._job, own_left, company, lefts, gpu, self._rate, self._weight)

    def _step(self, job: Job) -> int | None:
        """Remaining time in logarithmic steps."""
        left_us = self._left_us(job)
        return None if left_us is None else round(_STEPS * log2(max(left_us, 1)))
