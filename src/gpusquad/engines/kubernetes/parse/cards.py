"""Which containers of a pod get how many cards, and which ones."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.engines.kubernetes.parse.container_requests import ContainerRequest, asked_by
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import GPU, GPU_SHARED
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import UNIT_NANOS

MOST_CARDS = 1024
"""Of one pod."""


def cards_by_container(pod: Object) -> list[tuple[str, int]]:
    """Containers that get cards, in the order of their start: init containers first."""
    return cards_in(asked_by(pod))


def cards_in(asked: Sequence[ContainerRequest]) -> list[tuple[str, int]]:
    return [(each.name, cards) for each in asked if (cards := cards_of(each))]


def cards_of(asked: ContainerRequest) -> int:
    """How many cards one container is to see."""
    amount = asked.amounts.get(GPU, 0) + asked.amounts.get(GPU_SHARED, 0)
    cards, rest = divmod(amount, UNIT_NANOS)
    if rest:
        raise UnsupportedField(
            f"{asked.name}.resources[{GPU}]",
            f"{amount / UNIT_NANOS:g} is not a whole number of GPUs",
            "ask for nvidia.com/gpu: 1 with gpusquad.io/gpu-sm-percent or gpusquad.io/gpu-memory for a part of one",
        )
    if cards > MOST_CARDS:
        raise UnsupportedField(
            f"{asked.name}.resources[{GPU}]", f"{cards} GPUs", f"keep it to {MOST_CARDS} for a container"
        )
    return cards


def hand_out(pod: Object, cards: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The pod's cards by container.

    Containers that run side by side get different ones. An init container is over before the others begin, so it is
    lent cards that they will have: all but those of the sidecars started before it.
    """
    result: dict[str, tuple[str, ...]] = {}
    taken = used = 0
    for each in asked_by(pod):
        count = cards_of(each)
        if count:
            result[each.name] = tuple(cards[taken : taken + count])
            used = max(used, taken + count)
            taken += count if each.stays else 0
    if used != len(cards):
        raise ValueError(f"{len(cards)} cards for a pod that has {used}")
    return result
