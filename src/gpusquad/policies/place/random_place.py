"""Random: the baseline for other place policies."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.policy import PlacePolicy
from gpusquad.model.views import Refusal, TaskGroup, Trial
from gpusquad.policies.place._tasks import cards_with_room, put_share, put_task
from gpusquad.registry import register


@register("place", "random")
@dataclass(frozen=True)
class RandomPlace(PlacePolicy):
    """A random node with room and a random card with room on it. Deterministic for a seed."""

    seed: int = 0

    def propose(self, job: Job, trial: Trial) -> Placement | Refusal:
        for group in trial.groups:
            for task in range(group.count):
                drawn = _drawn(f"{self.seed}/{job.id}/{group.index}/{task}")
                if not _one(group, trial, drawn):
                    return trial.refuse(group)
        return trial.done()


def _one(group: TaskGroup, trial: Trial, drawn: tuple[int, int]) -> bool:
    space = trial.space
    nodes = np.flatnonzero(space.room(group.request))
    if not len(nodes):
        return False
    node = int(nodes[drawn[0] % len(nodes)])
    if group.request.share is None:
        put_task(group, trial, node)
        return True
    cards = cards_with_room(space, group.request)
    cards = cards[space.fixed.card_node[cards] == node]
    put_share(group, trial, int(cards[drawn[1] % len(cards)]))
    return True


def _drawn(text: str) -> tuple[int, int]:
    """Two numbers that depend only on the text, so that a replay draws the same."""
    digest = blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
