"""Interference: beside whom it and they lose least, and beside nobody where sharing would gain nothing.

What a newcomer would cost on a card is, for the goal ``jct``, the time by which it and those on it would end later, by
the run times foretold for them; for the goal ``work``, the speed it would lack plus the speed they would lose. Either
is held against taking turns. Two of one length at half speed each end as late as the second in turn would, both of
them: that is worse for the mean, though the card does as much. And where the lost speeds sum to 1 the card does no more
work than before. So what costs more than ``most_loss`` of what waiting would is refused, and the job waits as one that
asks for a whole card does: the plan promises it the first instant at which some card is idle or has better company,
counting on predicted ends, and nobody may slip in who would spoil that. Where no such instant is known (beside a
service that never ends, say) the plan insists, and the best of the bad places is taken rather than none for ever. Only
jobs that do not fit beside each other at all are never put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import Literal

import numpy as np

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.views import Refusal, SpaceView, TaskGroup, Trial
from gpusquad.policies.place._neighbours import Floats, Goal, NeighbourSets, Weight
from gpusquad.policies.place._pairing import in_order_of_pairs
from gpusquad.policies.place._tasks import cards_with_room, least, put_share
from gpusquad.policies.place.standalone import Standalone, whole_cards
from gpusquad.registry import register

_OF_SLO = 2.0
"""How much more a job counts that has an SLO or a deadline; each class of priority counts as much more again."""


@register("place", "interference")
@dataclass(frozen=True)
class InterferencePlace:
    """Where it and its neighbours lose least speed by prediction; waits where sharing a card would gain nothing."""

    goal: Goal = "jct"
    """What sharing must gain. jct: jobs end earlier, on average; work: the cards do more in all."""
    weigh: Literal["equal", "slo", "size"] = "equal"
    """Whose loss counts more. slo: jobs with an SLO, a deadline or a higher priority; size: those with more cards."""
    join_loss: float = 0.05
    """A card that others are on is preferred to an idle one up to this loss: of its run, or of a job's speed alone."""
    most_loss: float = 0.95
    """Rather wait than share at a greater loss. At 1 taking turns on the card would be as good."""

    def __post_init__(self) -> None:
        for name in ("join_loss", "most_loss"):
            if isnan(getattr(self, name)) or getattr(self, name) < 0:
                raise Invalid(f"place.interference.{name}", f"{getattr(self, name)!r} is not a loss", "use 0 or more")

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        if trial.rate is None:
            return Standalone().propose(job, trial)
        companies = NeighbourSets(job, trial.space, trial.rate, _WEIGHTS[self.weigh], self.goal, trial.left_us)
        notes: dict[str, None] = {}  # in order, each once
        for group in trial.groups:
            if group.request.share is None:
                refusal = None if whole_cards(group, trial) else trial.refuse(group)
            else:
                refusal = self._shares(group, trial, companies, notes)
            if refusal is not None:
                return refusal
        return trial.done("; ".join(notes))

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Jobs that arrive together: one of each of the best pairs first, then the others, so that each finds its
        partner. Without a rate: kind after kind."""
        if rate is None:
            return Standalone().rank(jobs)
        return in_order_of_pairs(jobs, rate, gpu, _WEIGHTS[self.weigh], self.goal)

    def _shares(
        self, group: TaskGroup, trial: Trial, companies: NeighbourSets, notes: dict[str, None]
    ) -> Refusal | None:
        for _ in range(group.count):
            cards = cards_with_room(trial.space, group.request)
            if not len(cards):
                return trial.refuse(group)
            card, loss, is_worth_it = self._choose(cards, trial, companies)
            if not is_worth_it and not (trial.must_place and loss < inf):
                return trial.refuse(group, ReasonCode.INTERFERENCE, _words(card, trial.space, companies))
            if loss > self.join_loss:
                notes[f"{trial.job.id} shares {_words(card, trial.space, companies)}"] = None
            put_share(group, trial, card)
        return None

    def _choose(self, cards: Ints, trial: Trial, companies: NeighbourSets) -> tuple[int, float, bool]:
        """The card, its loss, and whether that is less than waiting: the best company if joining costs little, else an
        idle card if there is one. Among equals the fullest, so that large holes stay whole."""
        space = trial.space
        is_idle = space.card_idle[cards]
        idle, shared = cards[is_idle], cards[~is_idle]
        losses, turns = companies.losses(shared)
        if len(idle) and (not len(shared) or losses.min() > self.join_loss):
            return least(idle, space.card_memory_free), 0.0, True
        best = shared[losses == losses.min()]
        is_worth_it = losses.min() <= self.most_loss * _wait(turns, trial.waiting)
        return least(best, space.card_memory_free), float(losses.min()), bool(is_worth_it)


def _wait(turns: Floats, waiting: int) -> float:
    """Until as many cards are idle as jobs wait; where more wait than there are cards, until the last one is."""
    place = min(max(waiting, 1), len(turns)) - 1
    return float(np.partition(turns, place)[place])


def _words(card: int, space: SpaceView, companies: NeighbourSets) -> str:
    """A card, who is on it, and what joining them would be like."""
    in_turn = (space.sharers.get(card, ()), *space.expected_sharers.get(card, ()))
    names = ", ".join(dict.fromkeys(job.app or job.id for company in in_turn for job in company))
    joined = companies.on(card)
    if joined.loss == inf:
        return f"{space.fixed.card_ids[card]} with {names}: they do not fit on one card"
    return (f"{space.fixed.card_ids[card]} with {names}: it would run at {joined.own_rate:.0%} of its speed alone "
            f"and cost them {joined.others_loss:.0%} of theirs")  # fmt: skip


def _equal(job: Job) -> float:
    return 1.0


def _by_slo(job: Job) -> float:
    return _OF_SLO ** (job.priority_level + (job.slo is not None))


def _by_size(job: Job) -> float:
    """A gang waits for its slowest task, so what one card loses is lost on all of them."""
    return float(max(job.gpus, 1))


_WEIGHTS: dict[str, Weight] = {"equal": _equal, "slo": _by_slo, "size": _by_size}
