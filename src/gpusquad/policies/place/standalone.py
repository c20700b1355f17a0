"""Standalone: jobs of one application share a card, which a 2020 study of containers sharing GPUs found fastest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusquad.model.interference import Rate
from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Ints, Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.units import WHOLE_MILLI, show_bytes
from gpusquad.model.views import Refusal, SpaceView, TaskGroup, Trial
from gpusquad.policies.place._tasks import cards_with_room, gpu_memory, least, put_share, utilisation
from gpusquad.registry import register


@register("place", "standalone")
@dataclass(frozen=True)
class Standalone(PlacePolicy):
    """Beside the same application, else on an idle card, else beside the most similar profile."""

    overcommit: bool = False
    """Jobs of one application may share a card even if they request more memory than it has."""

    def overcommits(self) -> bool:
        return self.overcommit

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        notes: dict[str, None] = {}  # in order, each once
        for group in trial.groups:
            placed = self._shares(group, trial, notes) if group.request.share else whole_cards(group, trial)
            if not placed:
                return trial.refuse(group)
        return trial.done("; ".join(notes))

    def rank(self, jobs: list[Job], rate: Rate | None = None, gpu: str = "") -> list[Job]:
        """Order of jobs that arrive together: by application, so that each application finds cards before others fill
        them."""
        largest: dict[str, int] = {}
        for job in jobs:
            largest[job.app] = max(largest.get(job.app, 0), gpu_memory(job))
        return sorted(jobs, key=lambda job: (-largest[job.app], job.app))

    def _shares(self, group: TaskGroup, trial: Trial, notes: dict[str, None]) -> bool:
        for _ in range(group.count):
            card = self._choose(group.request, trial, notes)
            if card is None:
                return False
            put_share(group, trial, card)
        return True

    def _choose(self, request: Request, trial: Trial, notes: dict[str, None]) -> int | None:
        space, job = trial.space, trial.job
        cards = cards_with_room(space, request)
        likes = _with_same_app(space, job)
        joined = cards[likes[cards]]
        if len(joined):
            return _most_similar(joined, space, job)
        if self.overcommit:
            joined = np.flatnonzero(likes & _fits_except_memory(space, request))
            if len(joined):
                return least(joined, -space.card_memory_free)
        if likes.any():
            notes[_apart(request, space, job, likes)] = None
        idle = cards[space.card_idle[cards]]
        if len(idle):
            return least(idle, space.card_memory_free)
        if not len(cards):
            return None
        card = _most_similar(cards, space, job)
        # Without sharers but not idle: a part of it is reserved.
        others = _apps(space.sharers.get(card, ())) or "a job with a reservation"
        notes[f"{job.id} shares {space.fixed.card_ids[card]} with {others}: no card is idle"] = None
        return card


def whole_cards(group: TaskGroup, trial: Trial) -> bool:
    """Place tasks with whole cards on the fullest nodes. They have no neighbours, so only large gaps matter."""
    space = trial.space
    nodes = np.flatnonzero(space.room(group.request))
    order = np.lexsort((space.node_cpu_free[nodes], space.node_idle[nodes]))
    return trial.fill(group, nodes[order])


def _with_same_app(space: SpaceView, job: Job) -> np.ndarray:
    """Cards on which the same application runs (without a label: the same job)."""
    likes = np.zeros(len(space.card_ok), dtype=bool)
    for card, sharers in space.sharers.items():
        likes[card] = any(other.app == job.app if job.app else other is job for other in sharers)
    return likes


def _fits_except_memory(space: SpaceView, request: Request) -> np.ndarray:
    """Cards that fit if their free memory is ignored. One task alone must fit the card."""
    share, fixed = request.share, space.fixed
    assert share is not None
    fits = space.card_ok & (space.card_slots_free > 0) & (space.card_sm_free >= share.sm_milli)
    fits &= (fixed.card_memory >= share.memory_bytes) & space.node_fits(request)[fixed.card_node]
    eligible = fixed.eligible_cards(request)
    return fits if eligible is None else fits & eligible


def _most_similar(cards: Ints, space: SpaceView, job: Job) -> int:
    """The card whose sharers differ least from the job on average. Ties: the fullest."""
    distances = np.full(len(space.card_ok), np.inf)
    for card in cards.tolist():
        others = space.sharers.get(card, ())
        memory = max(int(space.fixed.card_memory[card]), 1)
        distances[card] = sum(_distance(job, other, memory) for other in others) / max(len(others), 1)
    return least(cards, distances, space.card_memory_free)


def _distance(one: Job, other: Job, card_memory: int) -> float:
    """Distance of two profiles: utilisation, memory and bandwidth as fractions of a card. 0 for one application."""
    if one.app and one.app == other.app:
        return 0.0
    pairs = zip(_profile(one, card_memory), _profile(other, card_memory), strict=True)
    return sum(abs(a - b) for a, b in pairs)


def _profile(job: Job, card_memory: int) -> tuple[float, float, float]:
    profile = job.profile
    memory = profile.memory_bytes if profile is not None and profile.memory_bytes else gpu_memory(job, card_memory)
    return utilisation(job), min(memory / card_memory, 1.0), profile.bandwidth_ratio if profile is not None else 0.0


def _apart(request: Request, space: SpaceView, job: Job, likes: np.ndarray) -> str:
    """Why the job is not placed beside its application, for users."""
    share = request.share
    assert share is not None
    best = least(np.flatnonzero(likes), -space.card_memory_free)
    memory_bytes, asked, free = int(space.fixed.card_memory[best]), [], []
    if memory_bytes or share.memory_bytes:  # otherwise unknown, and not the cause
        asked.append(show_bytes(share.memory_on(memory_bytes)))
        free.append(show_bytes(int(space.card_memory_free[best])))
    if share.sm_milli:
        asked.append(f"{share.sm_milli / WHOLE_MILLI:.0%} of the SMs")
        free.append(f"{space.card_sm_free[best] / WHOLE_MILLI:.0%}")
    told = f"it requests {' and '.join(asked) or 'a share'}, free is {' and '.join(free) or 'none'}"
    return f"{job.id} is not beside the same application on {space.fixed.card_ids[best]}: {told}"


def _apps(sharers: tuple[Job, ...]) -> str:
    return ", ".join(dict.fromkeys(job.app or job.id for job in sharers))
