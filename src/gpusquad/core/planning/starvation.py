"""Starvation guard. Jobs should start by the instant at which the order policy says they are due. Promoting only jobs
that are already late is not enough: after a burst they would queue behind each other. So every cycle finds the jobs
that would be late if all started by due time from now on, and promotes all jobs due by the last of those."""

from __future__ import annotations

import numpy as np

from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.placement import Ints

_USED = 0.75
"""Fraction of the card time that queued gangs can use."""


def promote_overdue(state: SchedulerState) -> None:
    """Rank the queue again when the set of promoted jobs changes."""
    before_us, state.due_until_us = state.due_until_us, state.now_us
    if not len(state.queue):
        return
    due_us = np.fromiter((_due_us(state, waiting) for waiting in state.queue), np.int64, len(state.queue))
    state.due_until_us = max(state.now_us, _last_late_us(state, due_us))
    low_us, high_us = sorted((before_us, state.due_until_us))
    if ((due_us > low_us) & (due_us <= high_us)).any():
        state.resort("overdue jobs were promoted")


def _due_us(state: SchedulerState, waiting: PendingJob) -> int:
    due_us = waiting.due_us
    if due_us is None:
        due_us = waiting.due_us = int(state.policies.order.due_us(waiting.job, state))
    return due_us


def _last_late_us(state: SchedulerState, due_us: Ints) -> int:
    """Due time of the last job that would be late if all started by due time. 0: none."""
    line = np.argsort(due_us, kind="stable")
    gpus = state.space.healthy_cards()
    horizon_us = max(due - w.job.eligible_us for due, w in zip(due_us.tolist(), state.queue, strict=True))
    cluster_time_us = np.fromiter((w.cluster_time_us(gpus, horizon_us) for w in state.queue), np.float64, len(due_us))[
        line
    ]
    late = state.now_us + (np.cumsum(cluster_time_us) - cluster_time_us) / _USED > due_us[line]
    return int(due_us[line[np.flatnonzero(late)[-1]]]) if late.any() else 0
