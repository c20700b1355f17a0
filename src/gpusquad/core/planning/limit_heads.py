"""Jobs over a limit of their tenant or lane wait without blocking others, and keep their place under that limit.

The first job that waits for a limit is its *limit head*. A job behind it, under the same limit, may start only if it is
predicted to end before enough GPUs are released for the head, or if the head does not need what it takes. Once such a
guest has outlived its time, no further one starts. Otherwise a wide job would wait until its tenant has no small ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpusquad.core.planning.commitments import guests
from gpusquad.core.state.limits import over_limit
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, Run, after_us
from gpusquad.core.state.state import SchedulerState, cards_of

LimitGroup = tuple[str, str]
"""Kind of the limit, and the name of the tenant or lane."""


@dataclass(slots=True)
class LimitHead:
    """The first pending job that waits for a limit."""

    waiting: PendingJob
    open_until_us: int
    """Instant by which jobs behind it must be predicted to end."""
    spare_gpus: int
    """What jobs that stay longer may take."""


def block_over_limit(state: SchedulerState) -> None:
    """Mark the pending jobs that would exceed a limit, or would delay a job before them that waits for one."""
    state.limit_heads = {}
    if not state.has_limits:
        return
    for waiting in state.queue:
        blocked = waits_for_limit(state, waiting)
        if blocked != waiting.blocked:
            waiting.blocked = blocked
            state.capacity_changed()


def waits_for_limit(state: SchedulerState, waiting: PendingJob) -> bool:
    """Whether the job would exceed a limit now, and is then its head, or would delay the head of a limit."""
    over = over_limit(state, waiting.job)
    if over is not None:
        _add_head(state, waiting, *over)
    return over is not None or limit_head_of(state, waiting) is not None


def limit_head_of(state: SchedulerState, waiting: PendingJob) -> LimitHead | None:
    """The limit head that the job could delay if it started now."""
    until_us = after_us(state.now_us, waiting.stay_us)
    for group in _groups(state, waiting):
        head = state.limit_heads.get(group)
        if head is None or head.waiting.rank >= waiting.rank or until_us <= head.open_until_us:
            continue
        if waiting.job.gang.min_gpus > head.spare_gpus:
            return head
    return None


def take_spare(state: SchedulerState, waiting: PendingJob, gpus: int) -> None:
    """Account for a job that starts and stays longer than a limit head behind which it is."""
    until_us = after_us(state.now_us, waiting.stay_us)
    for group in _groups(state, waiting):
        head = state.limit_heads.get(group)
        if head is not None and head.waiting.rank < waiting.rank and until_us > head.open_until_us:
            head.spare_gpus -= gpus


def _add_head(state: SchedulerState, waiting: PendingJob, kind: str, name: str, held: int, limit: int) -> None:
    needed = waiting.job.gang.min_gpus
    if (kind, name) in state.limit_heads or needed > limit:
        return
    runs = sorted(_runs_of(state, kind, name), key=lambda run: (run.end_us, run.sequence))
    at_us, left = NEVER_US, held
    for run in runs:
        left -= cards_of(run.placement)
        if left + needed <= limit:
            at_us = max(run.end_us, state.now_us + 1)
            break
    left = held - sum(cards_of(run.placement) for run in runs if run.end_us <= at_us)
    spare, open_until_us = max(0, limit - needed - left), at_us
    if any(run.admitted_until_us < state.now_us for run in guests(state, waiting, runs)):
        spare, open_until_us = 0, 0
    state.limit_heads[kind, name] = LimitHead(waiting, open_until_us, spare)


def _runs_of(state: SchedulerState, kind: str, name: str) -> Iterator[Run]:
    for run in state.runs.by_id.values():
        if name == (run.job.tenant if kind == "tenant" else run.lane.name):
            yield run


def _groups(state: SchedulerState, waiting: PendingJob) -> tuple[LimitGroup, LimitGroup]:
    return ("tenant", waiting.job.tenant), ("lane", state.lane(waiting.job).name)
