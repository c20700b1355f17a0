"""Caution: predictions may be wrong at the cost of pending jobs, for a while. When the head of the queue has waited too
long, the careful quantiles apply to all jobs until it runs."""

from __future__ import annotations

from math import inf

from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.units import US_PER_S


def update_caution(state: SchedulerState) -> None:
    """Use the careful quantiles while the head of the queue has waited longer than ``patience_s``."""
    plan = state.policies.plan
    patience_s = getattr(plan, "patience_s", inf)
    if patience_s == inf and not state.careful:
        return
    first = next((waiting for waiting in state.queue if not waiting.blocked), None)
    careful = first is not None and _waited_us(state, first) > patience_s * US_PER_S * _part(state, first)
    if careful != state.careful:
        state.set_caution(careful)


def _part(state: SchedulerState, waiting: PendingJob) -> float:
    """Factor of ``patience_s``. It is smaller for wide gangs, because their cards take longer to become free."""
    wide = getattr(state.policies.plan, "wide", 0.0)
    return 1.0 - wide * min(1.0, waiting.job.gpus / max(1, state.gpus))


def _waited_us(state: SchedulerState, waiting: PendingJob) -> int:
    return state.now_us - waiting.job.submitted_us
