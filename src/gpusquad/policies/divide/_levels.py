"""Priority levels of clients side by side without a latency SLO: by priority, then short kernels first.

Kernels of two programs on one card alternate, so the client with the shorter kernels waits most of the time, and the
other cannot use what it leaves free. On an H200 under MPS, GoogLeNet beside VGG-16, whose kernels are 2.7 times as
long, had rates of 0.30 and 0.81. With the blocks of GoogLeNet first they were 0.67 and 0.56.

Where kernels are about equally long, the client nearer its end goes first if the policy sets ``by_remaining``. AlexNet
beside a transformer with twice as much left, and the transformer beside ResNet-50, ended on average 11 and 3 % sooner
with the shorter job first, and did 1.02 and 0.98 times as much at once (measured with MPS client priorities).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log2

from gpusquad.model.squad import MAX_LEVEL, GpuClient


def levels(together: Sequence[GpuClient], before: Mapping[str, int], by_remaining: bool = False) -> dict[str, int]:
    """Level of each client: by priority, then one class per halving of the longest kernel, then, with ``by_remaining``,
    one per halving of the longest remaining work. ``before``: their previous levels. These stay unless the order is
    wrong, because beside long kernels short ones seem longer than they are."""
    had = {one.id: before[one.id] for one in together if one.id in before}
    if len(had) == len(together) and _order_holds(together, had):
        return had
    longest_us = max((one.kernel_us for one in together), default=0.0)
    # Priorities first: MPS client priorities follow them, and levels must not contradict those.
    most_left_us = _most_left_us(together) if by_remaining else 0.0
    return _spread(
        {
            one.id: (one.priority, _halvings(longest_us, one.kernel_us), _halvings(most_left_us, _left_us(one)))
            for one in together
        }
    )


def _halvings(most_us: float, own_us: float) -> int:
    """How many times ``most_us`` can be halved down to ``own_us``; 0 if one of them is unknown."""
    if most_us <= 0 or own_us <= 0:
        return 0
    return int(log2(min(most_us / own_us, 2.0**MAX_LEVEL)))


def _left_us(client: GpuClient) -> int:
    """At least 1: it has not ended."""
    return max(client.remaining_us or 0, 1)


def _most_left_us(together: Sequence[GpuClient]) -> float:
    """0: no client is raised for its end, because one has an SLO or its remaining work is unknown."""
    left = [one.remaining_us for one in together if one.remaining_us is not None and not one.has_slo]
    return float(max(left)) if len(left) == len(together) else 0.0


def _spread(ranks: Mapping[str, tuple[int, int, int]]) -> dict[str, int]:
    """Levels as far apart as possible: the measurements used the highest against the default."""
    raised = sorted(set(ranks.values()))[1:]
    of_rank = {one: max(1, MAX_LEVEL * (at + 1) // len(raised)) for at, one in enumerate(raised)}
    return {name: of_rank.get(one, 0) for name, one in ranks.items()}


def _order_holds(together: Sequence[GpuClient], before: Mapping[str, int]) -> bool:
    return any(before.values()) and all(_in_order(one, other, before) for one, other in combinations(together, 2))


def _in_order(one: GpuClient, other: GpuClient, before: Mapping[str, int]) -> bool:
    low, high = sorted((one, other), key=lambda client: before[client.id])
    is_raised = before[high.id] > before[low.id]
    if low.priority != high.priority:
        return is_raised and high.priority > low.priority
    return not is_raised or high.kernel_us <= low.kernel_us
