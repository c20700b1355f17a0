"""Nobody should wait longer than the order says. To put first who is late already comes too late: after a rush they
stand in line behind each other. So every cycle asks who would be late if from now on all went by the instant they are
due, and everybody due until the last of those goes first."""

from __future__ import annotations

import numpy as np

from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.placement import Ints

_USED = 0.75
"""Of the card time there is, how much gangs in line can make use of."""


def promote_overdue(state: SchedulerState) -> None:
    """Rank anew when others have to go first."""
    before_us, state.due_until_us = state.due_until_us, state.now_us
    if not len(state.queue):
        return
    due_us = np.fromiter((_due_us(state, waiting) for waiting in state.queue), np.int64, len(state.queue))
    state.due_until_us = max(state.now_us, _last_late_us(state, due_us))
    low_us, high_us = sorted((before_us, state.due_until_us))
    if ((due_us > low_us) & (due_us <= high_us)).any():
        state.resort("others have waited long enough")


def _due_us(state: SchedulerState, waiting: PendingJob) -> int:
    due_us = waiting.due_us
    if due_us is None:
        due_us = waiting.due_us = int(state.policies.order.due_us(waiting.job, state))
    return due_us


def _last_late_us(state: SchedulerState, due_us: Ints) -> int:
    """When the last is due of those who would be late if all went in that order."""
    line = np.argsort(due_us, kind="stable")
    gpus = state.space.healthy_cards()
    horizon_us = max(due - w.job.submitted_us for due, w in zip(due_us.tolist(), state.queue, strict=True))
    cluster_time_us = np.fromiter((w.cluster_time_us(gpus, horizon_us) for w in state.queue), np.float64, len(due_us))[
        line
    ]
    late = state.now_us + (np.cumsum(cluster_time_us) - cluster_time_us) / _USED > due_us[line]
    return int(due_us[line[np.flatnonzero(late)[-1]]]) if late.any() else 0
