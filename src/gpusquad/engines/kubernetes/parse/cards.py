"""Cards of a pod's containers: how many, and which."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.engines.kubernetes.parse.container_requests import ContainerRequest, container_requests
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import GPU, GPU_SHARED
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import UNIT_NANOS

MAX_CARDS = 1024
"""For one pod."""


def cards_by_container(pod: Object) -> list[tuple[str, int]]:
    """Containers that get cards, in the order of their start: init containers first."""
    return cards_in(container_requests(pod))


def cards_in(asked: Sequence[ContainerRequest]) -> list[tuple[str, int]]:
    return [(each.name, cards) for each in asked if (cards := cards_of(each))]


def cards_of(asked: ContainerRequest) -> int:
    """Number of cards that the container sees."""
    amount = asked.amounts.get(GPU, 0) + asked.amounts.get(GPU_SHARED, 0)
    cards, rest = divmod(amount, UNIT_NANOS)
    if rest:
        raise UnsupportedField(
            f"{asked.name}.resources[{GPU}]",
            f"{amount / UNIT_NANOS:g} is not a whole number of GPUs",
            "request nvidia.com/gpu: 1 with gpusquad.io/gpu-sm-percent or gpusquad.io/gpu-memory for a share of one",
        )
    if cards > MAX_CARDS:
        raise UnsupportedField(
            f"{asked.name}.resources[{GPU}]", f"{cards} GPUs are too many", f"request at most {MAX_CARDS} per container"
        )
    return cards


def assign_cards(pod: Object, cards: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The pod's cards by container.

    Containers that run concurrently get different cards. An init container ends before the others start, so it uses
    cards that they will get: all but those of the sidecars started before it.
    """
    result: dict[str, tuple[str, ...]] = {}
    taken = used = 0
    for each in container_requests(pod):
        count = cards_of(each)
        if count:
            result[each.name] = tuple(cards[taken : taken + count])
            used = max(used, taken + count)
            taken += count if each.stays else 0
    if used != len(cards):
        raise ValueError(f"{len(cards)} cards for a pod that needs {used}")
    return result
