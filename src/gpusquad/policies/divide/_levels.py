"""Side by side, whose blocks have SMs first among those without a latency target: higher priorities, short kernels.

Kernels of two programs on one card take turns, so whoever has the shorter ones waits most of the time, and what it
leaves free meanwhile is not what the other could use. On an H200 under MPS, GoogLeNet beside VGG-16, whose kernels are
2.7 times as long, had 0.30 and 0.81 of their speeds alone; with the blocks of GoogLeNet first, 0.67 and 0.56.

Where kernels are about as long, it may be the one that is nearer its end, if the policy minds ends: AlexNet beside a
transformer with twice as much left, and the transformer beside ResNet-50, ended 11 and 3 % sooner in the mean with the
shorter job first, and did 1.02 and 0.98 times as much at once (by priorities of MPS clients, which levels stand for).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log2

from gpusquad.model.squad import MAX_LEVEL, GpuClient


def levels(together: Sequence[GpuClient], before: Mapping[str, int], minds_ends: bool = False) -> dict[str, int]:
    """Among equally important ones a class for each half of the longest kernels; among those of one class, where ends
    are minded, one for each half of the most that is left. ``before``: levels that they had, which stay unless they are
    the wrong way round: beside long kernels short ones seem longer than they are."""
    had = {one.id: before[one.id] for one in together if one.id in before}
    if len(had) == len(together) and _still_right(together, had):
        return had
    longest_us = max((one.kernel_us for one in together), default=0.0)
    # Priorities first: so are their places in the queue of MPS told apart, and this must not go against that.
    most_left_us = _most_left_us(together) if minds_ends else 0.0
    return _spread(
        {
            one.id: (one.priority, _halvings(longest_us, one.kernel_us), _halvings(most_left_us, _left_us(one)))
            for one in together
        }
    )


def _halvings(most_us: float, own_us: float) -> int:
    """How often the most was halved to come to its own; 0 where one of both is not known."""
    if most_us <= 0 or own_us <= 0:
        return 0
    return int(log2(min(most_us / own_us, 2.0**MAX_LEVEL)))


def _left_us(client: GpuClient) -> int:
    """At least something: it is not over."""
    return max(client.remaining_us or 0, 1)


def _most_left_us(together: Sequence[GpuClient]) -> float:
    """0 where nobody is raised for its end: not all are known, or somebody has a goal that ends say nothing of."""
    left = [one.remaining_us for one in together if one.remaining_us is not None and not one.has_slo]
    return float(max(left)) if len(left) == len(together) else 0.0


def _spread(ranks: Mapping[str, tuple[int, int, int]]) -> dict[str, int]:
    """As far apart as the levels go: what was measured was the highest over the usual one."""
    raised = sorted(set(ranks.values()))[1:]
    of_rank = {one: max(1, MAX_LEVEL * (at + 1) // len(raised)) for at, one in enumerate(raised)}
    return {name: of_rank.get(one, 0) for name, one in ranks.items()}


def _still_right(together: Sequence[GpuClient], before: Mapping[str, int]) -> bool:
    return any(before.values()) and all(_in_order(one, other, before) for one, other in combinations(together, 2))


def _in_order(one: GpuClient, other: GpuClient, before: Mapping[str, int]) -> bool:
    low, high = sorted((one, other), key=lambda client: before[client.id])
    is_raised = before[high.id] > before[low.id]
    if low.priority != high.priority:
        return is_raised and high.priority > low.priority
    return not is_raised or high.kernel_us <= low.kernel_us
