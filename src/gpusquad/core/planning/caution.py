"""Caution: predictions may be wrong at the cost of pending jobs, for a while. When the head of the queue has waited too
long, the careful quantiles apply to all jobs until it runs."""

from __future__ import annotations

from math import inf

from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.state import SchedulerState


def update_caution(state: SchedulerState) -> None:
    """Use the careful quantiles while the head of the queue has waited longer than the plan policy allows."""
    plan = state.policies.plan
    if not state.careful and plan.patience_us(0.0) == inf:
        return
    first = next((waiting for waiting in state.queue if not waiting.blocked), None)
    careful = first is not None and _waited_us(state, first) > plan.patience_us(_width_ratio(state, first))
    if careful != state.careful:
        state.set_caution(careful)


def _width_ratio(state: SchedulerState, waiting: PendingJob) -> float:
    return min(1.0, waiting.job.gpus / max(1, state.gpus))


def _waited_us(state: SchedulerState, waiting: PendingJob) -> int:
    return state.now_us - waiting.job.eligible_us
