"""Side by side, whose blocks have SMs first: those of short kernels, and of latency targets before all others.

Kernels of two programs on one card take turns, so whoever has the shorter ones waits most of the time, and what it
leaves free meanwhile is not what the other could use. On an H200 under MPS, GoogLeNet beside VGG-16, whose kernels are
2.7 times as long, had 0.30 and 0.81 of their speeds alone; with the blocks of GoogLeNet first, 0.67 and 0.56. Where
kernels are about as long it made no difference that could be told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2

from gpusquad.model.squad import MOST_LEVEL, Tenant


def levels(together: Sequence[Tenant], before: Mapping[str, int]) -> dict[str, int]:
    """A class for each half of the longest kernels. ``before``: levels of the last squad of the same, which stay unless
    they are the wrong way round: beside long kernels short ones seem longer than they are."""
    if before.keys() == {one.id for one in together} and _still_right(together, before):
        return dict(before)
    longest_us = max((one.kernel_us for one in together if not one.has_latency_goal), default=0.0)
    found = {one.id: _class(one, longest_us) for one in together if not one.has_latency_goal}
    first = 1 + max(found.values(), default=-1)
    return _spread(found | {one.id: first for one in together if one.has_latency_goal})


def _class(tenant: Tenant, longest_us: float) -> int:
    """0 where nothing is known of its kernels."""
    if tenant.kernel_us <= 0:
        return 0
    return int(log2(min(longest_us / tenant.kernel_us, 2.0**MOST_LEVEL)))


def _spread(classes: Mapping[str, int]) -> dict[str, int]:
    """As far apart as the levels go: what was measured was the highest over the usual one."""
    raised = sorted(set(classes.values()) - {0})
    of_class = {one: max(1, MOST_LEVEL * (at + 1) // len(raised)) for at, one in enumerate(raised)}
    return {name: of_class.get(one, 0) for name, one in classes.items()}


def _still_right(together: Sequence[Tenant], before: Mapping[str, int]) -> bool:
    ranked = sorted((one for one in together if not one.has_latency_goal), key=lambda one: before[one.id])
    is_raised = any(before.values())
    return is_raised and all(
        before[low.id] == before[high.id] or high.kernel_us <= low.kernel_us
        for at, low in enumerate(ranked)
        for high in ranked[at + 1 :]
    )
