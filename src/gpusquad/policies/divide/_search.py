"""The best split of a card's SM groups among a few clients: at least one group each, none left over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from gpusquad.model.squad import GpuClient

Utility = Callable[[GpuClient, int, Sequence[tuple[GpuClient, int]]], float]
"""Value of a client with this share beside others with theirs. It must not grow with the shares of others."""


def best_counts(
    clients: Sequence[GpuClient], groups: int, shares: Sequence[int], utility: Utility
) -> tuple[float, tuple[int, ...]]:
    """Exact, by branch and bound. ``shares[n]`` is the share of n groups."""
    search = _Search(clients, groups, shares, utility)
    search.best, search.counts = hill_climbed_counts(clients, groups, shares, utility)
    search.try_from(0, groups, [], 0.0)
    return search.best, search.counts


def hill_climbed_counts(
    clients: Sequence[GpuClient], groups: int, shares: Sequence[int], utility: Utility, start: Sequence[int] = ()
) -> tuple[float, tuple[int, ...]]:
    """Hill climbing by moving one group at a time, from an even split. With ``start``, one step from that split: the
    next squad can take another. Near the best, not always the best."""
    count = len(clients)
    counts = list(start) or [groups // count + (1 if index < groups % count else 0) for index in range(count)]
    best = total(clients, counts, shares, utility)
    for _ in range(1 if start else groups):
        found = _best_step(clients, counts, shares, utility)
        if found[0] <= best + 1e-12:
            break
        best, counts = found
    return best, tuple(counts)


def total(clients: Sequence[GpuClient], counts: Sequence[int], shares: Sequence[int], utility: Utility) -> float:
    pairs = [(client, shares[count]) for client, count in zip(clients, counts, strict=True)]
    return sum(utility(client, share, pairs[:at] + pairs[at + 1 :]) for at, (client, share) in enumerate(pairs))


def _best_step(
    clients: Sequence[GpuClient], counts: list[int], shares: Sequence[int], utility: Utility
) -> tuple[float, list[int]]:
    best, found = -inf, counts
    for giver in range(len(counts)):
        if counts[giver] < 2:
            continue
        for taker in range(len(counts)):
            if taker != giver:
                tried = counts.copy()
                tried[giver] -= 1
                tried[taker] += 1
                value = total(clients, tried, shares, utility)
                if value > best:
                    best, found = value, tried
    return best, found


class _Search:
    """Depth-first search, client by client, with a bound on the value of the remaining clients."""

    def __init__(self, clients: Sequence[GpuClient], groups: int, shares: Sequence[int], utility: Utility) -> None:
        self._clients, self._shares, self._utility = clients, shares, utility
        self.best, self.counts = -inf, ()
        most = groups - len(clients) + 1
        self._bounds = [
            [0.0]
            + [utility(one, shares[n], [(o, shares[1]) for o in clients if o is not one]) for n in range(1, most + 1)]
            for one in clients
        ]
        self._rest = self._best_rest(groups, most)

    def _best_rest(self, groups: int, most: int) -> list[list[float]]:
        """``[first client][groups left]``: upper bound of the value of the clients from the first on."""
        count = len(self._clients)
        table = [[-inf] * (groups + 1) for _ in range(count + 1)]
        table[count][0] = 0.0
        for at in range(count - 1, -1, -1):
            for left in range(1, groups + 1):
                table[at][left] = max(
                    (self._bounds[at][n] + table[at + 1][left - n] for n in range(1, min(most, left) + 1)), default=-inf
                )
        return table

    def try_from(self, at: int, left: int, counts: list[int], bound: float) -> None:
        if bound + self._rest[at][left] <= self.best + 1e-12:
            return
        if at == len(self._clients):
            value = total(self._clients, counts, self._shares, self._utility)
            if value > self.best:
                self.best, self.counts = value, tuple(counts)
            return
        bounds, rest = self._bounds[at], self._rest[at + 1]
        candidates = [(bounds[n] + rest[left - n], n) for n in range(1, min(len(bounds) - 1, left) + 1)]
        for _, n in sorted(candidates, reverse=True):  # best bound first, so that more is pruned later
            self.try_from(at + 1, left - n, [*counts, n], bound + bounds[n])
