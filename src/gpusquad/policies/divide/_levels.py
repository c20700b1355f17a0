"""Side by side, whose blocks have SMs first: those of latency targets, of higher priorities, of short kernels.

Kernels of two programs on one card take turns, so whoever has the shorter ones waits most of the time, and what it
leaves free meanwhile is not what the other could use. On an H200 under MPS, GoogLeNet beside VGG-16, whose kernels are
2.7 times as long, had 0.30 and 0.81 of their speeds alone; with the blocks of GoogLeNet first, 0.67 and 0.56. Where
kernels are about as long it made no difference that could be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import log2

from gpusquad.model.squad import MOST_LEVEL, Tenant

Importance = tuple[bool, int]


def levels(together: Sequence[Tenant], before: Mapping[str, int]) -> dict[str, int]:
    """Among equally important ones a class for each half of the longest kernels. ``before``: levels of the last squad
    of the same, which stay unless they are the wrong way round: beside long kernels short ones seem longer than they
    are."""
    if before.keys() == {one.id for one in together} and _still_right(together, before):
        return dict(before)
    longest_us = max((one.kernel_us for one in together if not one.has_latency_goal), default=0.0)
    return _spread({one.id: (*_importance(one), _class(one, longest_us)) for one in together})


def _importance(tenant: Tenant) -> Importance:
    """As their places in the queue of MPS are told apart: what is chosen here must not go against that."""
    return tenant.has_latency_goal, tenant.priority


def _class(tenant: Tenant, longest_us: float) -> int:
    """0 where nothing is known of its kernels, or where a latency target counts alone."""
    if tenant.has_latency_goal or tenant.kernel_us <= 0:
        return 0
    return int(log2(min(longest_us / tenant.kernel_us, 2.0**MOST_LEVEL)))


def _spread(ranks: Mapping[str, tuple[bool, int, int]]) -> dict[str, int]:
    """As far apart as the levels go: what was measured was the highest over the usual one."""
    raised = sorted(set(ranks.values()))[1:]
    of_rank = {one: max(1, MOST_LEVEL * (at + 1) // len(raised)) for at, one in enumerate(raised)}
    return {name: of_rank.get(one, 0) for name, one in ranks.items()}


def _still_right(together: Sequence[Tenant], before: Mapping[str, int]) -> bool:
    return any(before.values()) and all(_in_order(one, other, before) for one, other in combinations(together, 2))


def _in_order(one: Tenant, other: Tenant, before: Mapping[str, int]) -> bool:
    low, high = sorted((one, other), key=lambda tenant: before[tenant.id])
    is_raised = before[high.id] > before[low.id]
    if _importance(low) != _importance(high):
        return is_raised and _importance(high) > _importance(low)
    return not is_raised or (not high.has_latency_goal and high.kernel_us <= low.kernel_us)
