"""SM groups: how many each client gets, and which. Clients keep their groups where possible: each move has a cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpusquad.model.squad import GpuClient, ShareableCard


def apportioned(parts: Sequence[float], groups: int) -> list[int]:
    """Whole groups by fraction: at least one each while there are enough, the rest by the largest remainder."""
    count = len(parts)
    if count == 0:
        return []
    if count >= groups:
        return [1 if index < groups else 0 for index in range(count)]
    total = sum(parts) or 1.0
    exact = [max(part, 0.0) / total * groups for part in parts]
    given = [max(1, int(part)) for part in exact]
    while sum(given) > groups:  # the minimum of one group has raised the sum
        index = max((i for i in range(count) if given[i] > 1), key=lambda i: (given[i] - exact[i], given[i], -i))
        given[index] -= 1
    while sum(given) < groups:
        index = max(range(count), key=lambda i: (exact[i] - given[i], -i))
        given[index] += 1
    return given


def masks(
    clients: Sequence[GpuClient], counts: Sequence[int], card: ShareableCard, before: Mapping[str, int]
) -> dict[str, int]:
    """Disjoint masks with the given numbers of groups. Each client keeps the groups it has, up to its count."""
    free = (1 << card.groups) - 1
    kept: dict[str, int] = {}
    for client, count in zip(clients, counts, strict=True):
        mine = _lowest(before.get(client.id, 0) & free, count)
        kept[client.id] = mine
        free &= ~mine
    for client, count in zip(clients, counts, strict=True):
        more = _lowest(free, count - kept[client.id].bit_count())
        kept[client.id] |= more
        free &= ~more
    return kept


def _lowest(mask: int, count: int) -> int:
    """The lowest ``count`` groups of a mask."""
    taken = 0
    while mask and count > 0:
        bit = mask & -mask
        taken |= bit
        mask &= ~bit
        count -= 1
    return taken
