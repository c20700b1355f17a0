"""The best way to hand out a card's groups to a few tenants, at least one each, none left over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from gpusquad.model.squad import GpuClient

Worth = Callable[[GpuClient, int, Sequence[tuple[GpuClient, int]]], float]
"""What a tenant with this share beside others with theirs counts. It must not grow with the shares of others."""


def best_counts(
    clients: Sequence[GpuClient], groups: int, shares: Sequence[int], worth: Worth
) -> tuple[float, tuple[int, ...]]:
    """Exact: every way is tried that could be better than the best so far. ``shares[n]`` is that of n groups."""
    search = _Search(clients, groups, shares, worth)
    search.best, search.counts = climbed_counts(clients, groups, shares, worth)
    search.try_from(0, groups, [], 0.0)
    return search.best, search.counts


def climbed_counts(
    clients: Sequence[GpuClient], groups: int, shares: Sequence[int], worth: Worth, start: Sequence[int] = ()
) -> tuple[float, tuple[int, ...]]:
    """One group at a time from one to another, as long as it gains: near the best, not sure of it. From an even split;
    or a single step from the split to ``start`` from, for the next squad can take another."""
    count = len(clients)
    counts = list(start) or [groups // count + (1 if index < groups % count else 0) for index in range(count)]
    best = total(clients, counts, shares, worth)
    for _ in range(1 if start else groups):
        found = _best_step(clients, counts, shares, worth)
        if found[0] <= best + 1e-12:
            break
        best, counts = found
    return best, tuple(counts)


def total(clients: Sequence[GpuClient], counts: Sequence[int], shares: Sequence[int], worth: Worth) -> float:
    pairs = [(client, shares[count]) for client, count in zip(clients, counts, strict=True)]
    return sum(worth(client, share, pairs[:at] + pairs[at + 1 :]) for at, (client, share) in enumerate(pairs))


def _best_step(
    clients: Sequence[GpuClient], counts: list[int], shares: Sequence[int], worth: Worth
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
                value = total(clients, tried, shares, worth)
                if value > best:
                    best, found = value, tried
    return best, found


class _Search:
    """Depth first, tenant by tenant, with a bound on what the rest could add."""

    def __init__(self, clients: Sequence[GpuClient], groups: int, shares: Sequence[int], worth: Worth) -> None:
        self._clients, self._shares, self._worth = clients, shares, worth
        self.best, self.counts = -inf, ()
        most = groups - len(clients) + 1
        self._bounds = [
            [0.0]
            + [worth(one, shares[n], [(o, shares[1]) for o in clients if o is not one]) for n in range(1, most + 1)]
            for one in clients
        ]
        self._rest = self._best_rest(groups, most)

    def _best_rest(self, groups: int, most: int) -> list[list[float]]:
        """``[first client][groups left]``: the most that those from the first on could count with what is left."""
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
            value = total(self._clients, counts, self._shares, self._worth)
            if value > self.best:
                self.best, self.counts = value, tuple(counts)
            return
        bounds, rest = self._bounds[at], self._rest[at + 1]
        ways = [(bounds[n] + rest[left - n], n) for n in range(1, min(len(bounds) - 1, left) + 1)]
        for _, n in sorted(ways, reverse=True):  # the most promising first, so that more is passed over later
            self.try_from(at + 1, left - n, [*counts, n], bound + bounds[n])
