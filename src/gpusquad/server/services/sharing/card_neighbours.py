"""Current neighbours of a job on its cards, and their interference: predicted, and observed in its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.units import US_PER_S
from gpusquad.predict.interference import InterferenceTable, RateEstimate
from gpusquad.server.answers import CardStatus, CardUser
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.records import cards_of
from gpusquad.server.services.sharing.interference_learning import MIN_STEPS, SETTLE_US, InterferenceLearner
from gpusquad.store.jobs import JobRow


@dataclass(frozen=True, slots=True)
class Neighbour:
    """Another job on a card."""

    user: CardUser
    app: str
    estimate: RateEstimate | None
    """Rate of the pair alone on a card. None: unknown."""


@dataclass(frozen=True, slots=True)
class CardNeighbours:
    """One card of a job."""

    card: CardStatus
    neighbours: tuple[Neighbour, ...]
    rate: float | None
    """Speed beside all neighbours over speed alone, as the core uses it. None: unknown."""


@dataclass(frozen=True, slots=True)
class StepRate:
    """Steps per second."""

    now: float | None
    alone: float | None

    @property
    def ratio(self) -> float | None:
        return self.now / self.alone if self.now is not None and self.alone else None


def neighbours_of(
    row: JobRow, cards: Sequence[CardStatus], context: SchedulerContext | None, model: object
) -> list[CardNeighbours]:
    """Neighbours on every card that the job holds now."""
    mine = set(cards_of(row))
    here = [card for card in cards if card.id in mine and any(user.job_id == row.id for user in card.jobs)]
    if not here:
        return []
    job_of = _finder(context)
    own, rate = job_of(row.id), None if context is None else context.state.rate
    return [_on(card, row.id, own, job_of, rate, model) for card in here]


def step_rate(row: JobRow, neighbours: InterferenceLearner | None) -> StepRate:
    """Step rate since its neighbours last changed. None if it reports no steps, or not long enough."""
    if neighbours is None:
        return StepRate(None, None)
    try:
        alone = neighbours.alone_rate(row)
    except KeyError:  # it has ended
        return StepRate(None, None)
    since, progress = neighbours.neighbours_since(row), row.progress or {}
    step, at_us = progress.get("step"), progress.get("at_us")
    if since is None or step is None or at_us is None:
        return StepRate(None, alone)
    passed_us, done = at_us - since[0], step - since[1]
    if done < MIN_STEPS or passed_us < SETTLE_US:
        return StepRate(None, alone)
    return StepRate(done * US_PER_S / passed_us, alone)


def _finder(context: SchedulerContext | None) -> Callable[[str], Job | None]:
    def find(job_id: str) -> Job | None:
        with suppress(KeyError):  # it has just ended
            return None if context is None else context.job(job_id)
        return None

    return find


def _on(
    card: CardStatus,
    job_id: str,
    own: Job | None,
    job_of: Callable[[str], Job | None],
    rate: Rate | None,
    model: object,
) -> CardNeighbours:
    users = [user for user in card.jobs if user.job_id != job_id]
    jobs = [job_of(user.job_id) for user in users]
    known = [job for job in jobs if job is not None]
    together = None if rate is None or own is None or len(known) < len(users) else rate(own, known, card.model)
    beside = tuple(
        Neighbour(user, "" if job is None else job.app, _between(own, job, card.model, model if rate else None))
        for user, job in zip(users, jobs, strict=True)
    )
    return CardNeighbours(card, beside, together)


def _between(own: Job | None, other: Job | None, gpu: str, model: object) -> RateEstimate | None:
    if own is None or other is None or not isinstance(model, InterferenceTable):
        return None
    return model.estimate(own, other, gpu)
