"""Measured: placement by measured interference where it is known, else as ``binpack``.

The interference of a job with the sharers of a card is known if it was measured with each of them, or learned from
running jobs. Such a card is preferred if the loss is small, and avoided otherwise (see ``interference``). All other
cards are chosen as by ``binpack``, and so is every card of a job with whole cards: a predicted loss is no reason to
take an idle card, which a gang may need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpusquad.model.interference import Rate, is_known
from gpusquad.model.job import Job
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.views import Refusal, TaskGroup, Trial
from gpusquad.policies.place.binpack import Binpack, fill_fullest_nodes
from gpusquad.policies.place.interference import InterferencePlace
from gpusquad.registry import register

_BINPACK = Binpack()


@register("place", "measured")
@dataclass(frozen=True)
class Measured(InterferencePlace):
    """By measured interference where it is known, else as binpack."""

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        if trial.rate is None or not job.has_shares:
            return _BINPACK.propose(job, trial)
        return super().propose(job, trial)

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Order of jobs that arrive together: the measured ones by their best pairs, then the others, largest GPU
        memory first."""
        known = [] if rate is None else _known_together(jobs, rate, gpu)
        if rate is None or len(known) < 2:
            return _BINPACK.rank(jobs)
        names = {job.id for job in known}
        return [*super().rank(known, rate, gpu), *_BINPACK.rank([job for job in jobs if job.id not in names])]

    def _whole(self, group: TaskGroup, trial: Trial) -> bool:
        return fill_fullest_nodes(group, trial)

    def _judged(self, cards: Ints, trial: Trial) -> NDArray[np.bool_]:
        """Cards with sharers whose interference with the job is known."""
        space, known = trial.space, {}
        judged = super()._judged(cards, trial)
        for at in np.flatnonzero(judged).tolist():
            card = int(cards[at])
            model = int(space.fixed.card_model[card])
            later = space.expected_sharers.get(card, ())
            key = (int(space.card_neighbours_key[card]), model, later)
            if key not in known:
                there = {(o.app, o.profile): o for jobs in (space.sharers.get(card, ()), *later) for o in jobs}
                known[key] = _knows_all(trial, there.values(), space.fixed.models[model])
            judged[at] = known[key]
        return judged


def _knows_all(trial: Trial, others: Iterable[Job], gpu: str) -> bool:
    assert trial.rate is not None
    return all(is_known(trial.rate, (trial.job, other), gpu) for other in others)


def _known_together(jobs: list[Job], rate: Rate, gpu: str) -> list[Job]:
    """Jobs of kinds that are known beside themselves and beside each other kind so far."""
    kinds: dict[tuple, Job] = {}
    for job in jobs:
        if all(is_known(rate, (job, other), gpu) for other in (job, *kinds.values())):
            kinds.setdefault((job.app, job.profile), job)
    return [job for job in jobs if (job.app, job.profile) in kinds]
