"""Helpers of place policies: eligible cards, and placing tasks one at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpusquad.model.job import Job, Request
from gpusquad.model.placement import Ints
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.model.views import SpaceView, TaskGroup, Trial

ChooseCard = Callable[[Ints], int]
"""Chooses one of the cards with room."""


def cards_with_room(space: SpaceView, request: Request) -> Ints:
    """Cards with room for one more such share, on nodes with the CPU and memory for it."""
    nodes = space.room(request)
    return np.flatnonzero((space.card_room(request) > 0) & (nodes[space.fixed.card_node] > 0))


def put_shares(group: TaskGroup, trial: Trial, choose: ChooseCard) -> bool:
    """Place tasks one by one, each on the card chosen among those that then have room."""
    for _ in range(group.count):
        cards = cards_with_room(trial.space, group.request)
        if not len(cards):
            return False
        put_share(group, trial, choose(cards))
    return True


def put_share(group: TaskGroup, trial: Trial, card: int) -> None:
    trial.put(group, trial.space.fixed.card_node[card : card + 1], np.array([[card]]))


def put_task(group: TaskGroup, trial: Trial, node: int) -> None:
    """Place one task without a share on the first idle cards of the node."""
    gpus = group.request.gpus
    cards = trial.space.idle_cards_of(node, group.request)[:gpus] if gpus else np.empty(0, dtype=np.int64)
    trial.put(group, np.array([node]), cards.reshape(1, gpus))


def fill_counted(group: TaskGroup, trial: Trial, nodes: Ints, per_node: int | None = None) -> Ints | None:
    """Like ``trial.fill``, but returns the number of tasks on each node. None: they do not all fit."""
    before = trial.space.room(group.request).copy()
    if not trial.fill(group, nodes, per_node):
        return None
    return before - trial.space.room(group.request)  # each task put takes one off the room


def least(cards: Ints, *keys: np.ndarray) -> int:
    """The first of these cards (or nodes) by the first key, ties by the next, then by position."""
    for key in keys:
        values = key[cards]
        cards = cards[values == values.min()]
    return int(cards[0])


def node_sum(space: SpaceView, per_card: np.ndarray) -> np.ndarray:
    """A quantity of cards summed over each node."""
    return np.bincount(space.fixed.card_node, weights=per_card, minlength=len(space.node_up))


def gpu_memory(job: Job, card_bytes: int = 1 << 50) -> int:
    """Largest GPU memory of any task of the job, on cards of that size. The default size is larger than any card: whole
    cards come before fractions of a card, and those before amounts."""
    return max(_request_memory(role.request, card_bytes) for role in job.roles)


def utilisation(job: Job) -> float:
    """Profiled utilisation of a card, or the requested share without a profile."""
    if job.profile is not None:
        return job.profile.utilisation_ratio
    return max(min(role.request.gpu_milli, WHOLE_MILLI) for role in job.roles) / WHOLE_MILLI


def _request_memory(request: Request, card_bytes: int) -> int:
    if request.share is not None:
        return request.share.memory_on(card_bytes)
    return request.gpus * card_bytes
