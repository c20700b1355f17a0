"""Interference: choose the neighbours with the least loss, and none if sharing brings no gain.

Cost of a new job on a card. Goal ``jct``: the total delay of its own end and of its neighbours' ends, by their
predicted run times. Goal ``work``: the rate that it lacks plus the rates that they lose. The cost is compared with
running one after the other. Two jobs of equal length at half speed both end when the second would have ended in
sequence: worse for the mean JCT, although the card does the same work. If the lost rates sum to 1, the card does no
more work than before.

A cost above ``most_loss`` times the cost of waiting is refused, and the job waits like one that requests a whole card.
The plan policy reserves the first instant at which, by predicted ends, a card is idle or has better neighbours.
Backfill must not spoil that. If no such instant is known, for example beside a service that never ends, the plan policy
sets ``must_place``, and the job takes the best available card instead of waiting indefinitely. Jobs that do not fit
together are never placed together.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isnan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.views import Refusal, SpaceView, TaskGroup, Trial
from gpusquad.policies.place._neighbours import Floats, Goal, NeighbourSets, Weight
from gpusquad.policies.place._pairing import in_order_of_pairs
from gpusquad.policies.place._tasks import cards_with_room, least, put_share
from gpusquad.policies.place.standalone import Standalone, whole_cards
from gpusquad.registry import register

_OF_SLO = 2.0
"""Factor of the weight of a job with an SLO or a deadline, and of each priority class."""


@register("place", "interference")
@dataclass(frozen=True)
class InterferencePlace(PlacePolicy):
    """The card with the least predicted loss for the job and its neighbours. Waits if sharing brings no gain."""

    goal: Goal = "jct"
    """What sharing must improve. jct: the mean completion time; work: the total work of the cards."""
    weigh: Literal["equal", "slo", "size"] = "equal"
    """Which losses weigh more. slo: of jobs with an SLO, a deadline or a higher priority; size: of jobs with more
    cards."""
    join_loss: float = 0.05
    """A shared card is preferred to an idle one up to this loss."""
    most_loss: float = 0.95
    """Wait instead of sharing at a greater loss. At 1, running one after the other is as good."""

    def __post_init__(self) -> None:
        for name in ("join_loss", "most_loss"):
            if isnan(getattr(self, name)) or getattr(self, name) < 0:
                raise Invalid(
                    f"place.interference.{name}",
                    f"{getattr(self, name)!r} is not a non-negative number",
                    "use 0 or more",
                )

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        if trial.rate is None:
            return Standalone().propose(job, trial)
        companies = NeighbourSets(job, trial.space, trial.rate, _WEIGHTS[self.weigh], self.goal, trial.left_us)
        notes: dict[str, None] = {}  # in order, each once
        for group in trial.groups:
            if group.request.share is None:
                refusal = None if self._whole(group, trial) else trial.refuse(group)
            else:
                refusal = self._shares(group, trial, companies, notes)
            if refusal is not None:
                return refusal
        return trial.done("; ".join(notes))

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Order of jobs that arrive together: one of each of the best pairs first, then the others, so that each finds
        its partner. Without a rate: by application."""
        if rate is None:
            return Standalone().rank(jobs)
        return in_order_of_pairs(jobs, rate, gpu, _WEIGHTS[self.weigh], self.goal)

    def _whole(self, group: TaskGroup, trial: Trial) -> bool:
        return whole_cards(group, trial)

    def _judged(self, cards: Ints, trial: Trial) -> NDArray[np.bool_]:
        """Which of these cards are chosen by their loss: those with sharers."""
        return ~trial.space.card_idle[cards]

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
        """The card, its loss, and whether that is better than waiting. The best neighbours if the loss is small, else
        an idle card if there is one. Ties: the fullest card, to keep large gaps free."""
        space = trial.space
        is_judged = self._judged(cards, trial)
        others, shared = cards[~is_judged], cards[is_judged]
        losses, turns = companies.losses(shared)
        if len(others) and (not len(shared) or losses.min() > self.join_loss):
            return least(others, space.card_memory_free), 0.0, True
        best = shared[losses == losses.min()]
        is_worth_it = losses.min() <= self.most_loss * _wait(turns, trial.waiting)
        return least(best, space.card_memory_free), float(losses.min()), bool(is_worth_it)


def _wait(turns: Floats, waiting: int) -> float:
    """Cost of waiting until as many cards are idle as jobs are pending, or all of them."""
    place = min(max(waiting, 1), len(turns)) - 1
    return float(np.partition(turns, place)[place])


def _words(card: int, space: SpaceView, companies: NeighbourSets) -> str:
    """Describe a card, its sharers and the cost of joining them, for users."""
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
    return _OF_SLO ** (job.card_level + (job.slo is not None))


def _by_size(job: Job) -> float:
    """A gang waits for its slowest task, so the loss on one card counts for all of its cards."""
    return float(max(job.gpus, 1))


_WEIGHTS: dict[str, Weight] = {"equal": _equal, "slo": _by_slo, "size": _by_size}
