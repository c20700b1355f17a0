"""Changes the memory quota of a pending or running job.

A decrease is requested from the engine first: a program does not release what it holds, and only released memory may be
given to others. An increase uses free memory and is sent to the engine afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.explain.feasibility import refusal
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Role, Share
from gpusquad.model.units import show_bytes
from gpusquad.server.answers import PEAK, JobChange
from gpusquad.server.errors import Conflict, Forbidden
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.records import cards_of, job_of
from gpusquad.store.jobs import JobRow

_MIB = 1 << 20
MARGIN = 1.1
"""Factor over the observed peak, because samples miss the highest moment."""


def memory_of(job: Job, row: JobRow, fixed: ClusterArrays) -> int | None:
    """Quota of each task on its card. None: not equal for all, not given, or a fraction of a card of unknown memory."""
    amounts = _amounts(job, row, fixed)
    return amounts.pop() or None if len(amounts) == 1 else None


def resizes(change: JobChange) -> bool:
    return change.memory is not None or change.memory_milli is not None


def with_memory(job: Job, change: JobChange) -> Job:
    """``PEAK`` is already replaced by an amount."""
    memory_bytes, memory_milli = int(change.memory or 0), change.memory_milli or 0
    return replace(job, roles=tuple(_resized(role, memory_bytes, memory_milli) for role in job.roles))


@dataclass(frozen=True, slots=True)
class ResizeAgreement:
    """``attempt``: the one whose quota the engine has decreased. None: no decrease."""

    change: JobChange
    attempt: int | None = None


class MemoryResizer:
    def __init__(self, context: SchedulerContext) -> None:
        self._context = context

    @contextmanager
    def agreed(self, row: JobRow, change: JobChange) -> Iterator[ResizeAgreement]:
        """In the caller's thread, because it can take seconds: the change with its bytes. For a decrease the engine has
        agreed, and restores the quota if the rest is refused. Raises ``Invalid`` if it is impossible."""
        if not resizes(change):
            yield ResizeAgreement(change)
            return
        if row.ended_us is not None:
            raise Conflict(f"job {row.id} is {row.state}", cure="only pending or running jobs can be changed")
        job = self._context.jobs.get(row.id) or job_of(row)
        self._check_kind(job)
        if change.memory == PEAK:
            change = replace(change, memory=self._seen(row, job))
        if not (change.memory or change.memory_milli):
            raise Invalid("memory", "must be greater than zero", "for example 6GiB, 30% or peak")
        runs = JobState(row.state) == JobState.RUNNING
        held, target = (self._each(row, job), self._target(row, with_memory(job, change))) if runs else (0, 0)
        if target >= held:
            yield ResizeAgreement(change)
            return
        tasks = len((row.placement or {}).get("tasks", ()))
        self._context.engine.resize(row.id, row.attempt, tasks, held, target)
        try:
            yield ResizeAgreement(change, row.attempt)
        except (Invalid, Conflict, Forbidden):
            with suppress(Invalid):
                self._context.engine.resize(row.id, row.attempt, tasks, target, held)
            raise

    def check(self, row: JobRow, job: Job, agreed: ResizeAgreement) -> None:
        """Inside a pass: check that some card can hold it, or that a running job's cards have room and the engine
        agreed to a decrease."""
        state = JobState(row.state)
        if state in (JobState.PENDING, JobState.HELD):
            never = refusal(self._context.state, job, comes_back=True)
            if never is not None:
                raise Invalid("memory", never.message, never.cure)
            return
        if state != JobState.RUNNING:
            raise Conflict(f"job {row.id} is {row.state}", cure="change its memory when it is running")
        self._target(row, job)
        more = _more(self._context.state, job)
        if min(more.values(), default=0) < 0 and agreed.attempt != row.attempt:
            raise Conflict(f"job {row.id} has changed meanwhile", cure="retry")
        for card, missing in _short(self._context.state, more):
            raise Invalid("memory", f"needs {show_bytes(missing)} more than is free on {card}", "request less")

    def _each(self, row: JobRow, job: Job) -> int:
        """Quota of each of its tasks on its card. 0: a fraction of a card of unknown memory."""
        amounts = _amounts(job, row, self._context.fixed)
        if len(amounts) > 1:
            raise Invalid("memory", "differs between its tasks or cards", "change it while the job is pending")
        return min(amounts, default=0)

    def _target(self, row: JobRow, job: Job) -> int:
        each = self._each(row, job)
        if not each:
            raise Invalid("memory", "is a percentage of a card of unknown memory", "change it while the job is pending")
        return each

    def _check_kind(self, job: Job) -> None:
        if self._context.cluster_engine is not None:
            cure = "change the pod template and recreate the pods"
            raise Invalid("memory", "is fixed when a pod is created", cure)
        parts = {(share.memory_bytes, share.memory_milli) if share else (0, 0)
                 for share in (role.request.share for role in job.roles)}  # fmt: skip
        if len(parts) > 1 or (0, 0) in parts:
            raise Invalid("memory", "is not set for all tasks of the job",
                          "only jobs whose tasks all request the same share can be changed")  # fmt: skip

    def _seen(self, row: JobRow, job: Job) -> int:
        """By the shim's count for each task and by samples. Samples miss the highest moment, but include programs
        without the shim. Never above the current quota."""
        if self._context.simulated:  # samples would show memory of the host instead
            raise Invalid("memory", "has no peak on simulated cards",
                          "give an amount, for example 6GiB")  # fmt: skip
        peaks = self._context.peaks
        tasks = len((row.placement or {}).get("tasks", ()))
        counted = self._context.engine.peak_memory_bytes(row.id, row.attempt, tasks)
        if not (peaks.is_whole(row.id, row.attempt) or all(counted)):
            raise Invalid("memory", "has an unknown peak: the job started before the service",
                          "give an amount, for example 6GiB")  # fmt: skip
        seen = _most_held(counted, peaks.seen(row.id, row.attempt) or 0)
        if not seen:
            raise Invalid("memory", "has no peak yet: the job has not used its card",
                          "give an amount, or retry when the job has used its card")  # fmt: skip
        target = ceil(seen * MARGIN / _MIB) * _MIB
        runs = JobState(row.state) == JobState.RUNNING
        return min(target, (self._each(row, job) if runs else 0) or target)


def _most_held(counted: Sequence[int], sampled: int) -> int:
    """Peak of any one task. A sample covers all tasks on a card: any excess over their counts could belong to one
    task."""
    if not all(counted):
        return max(sampled, *counted, 0)
    return max(counted, default=0) + max(0, sampled - sum(counted))


def _resized(role: Role, memory_bytes: int, memory_milli: int) -> Role:
    share = role.request.share or Share(memory_bytes, memory_milli=memory_milli)
    share = replace(share, memory_bytes=memory_bytes, memory_milli=memory_milli)
    return replace(role, request=replace(role.request, share=share))


def _amounts(job: Job, row: JobRow, fixed: ClusterArrays) -> set[int]:
    """Quotas of its tasks on their cards. 0: not given or unknown."""
    sizes = {int(fixed.card_memory[fixed.card_index[card]]) for card in cards_of(row) if card in fixed.card_index}
    amounts: set[int] = set()
    for share in {role.request.share for role in job.roles}:
        if share is None or share.is_slot_only or share.memory_bytes:
            amounts.add(share.memory_bytes if share is not None else 0)
        else:
            amounts |= {share.memory_on(size) for size in sizes}
    return amounts


def _more(state: SchedulerState, job: Job) -> Counter[int]:
    """Memory it needs on each of its cards with the new quota, minus what it holds."""
    run, target = state.runs[job.id], job.roles[0].request.share
    more: Counter[int] = Counter()
    for part in run.placement.parts:
        held = run.job.groups[part.request_index][0].share
        for card in part.cards.ravel().tolist():
            card_bytes = int(state.space.fixed.card_memory[card])
            more[card] += _counted(target, card_bytes) - _counted(held, card_bytes)
    return more


def _counted(share: Share | None, card_bytes: int) -> int:
    return share.memory_on(card_bytes) if share is not None else 0


def _short(state: SchedulerState, more: Counter[int]) -> Iterator[tuple[str, int]]:
    """Cards with too little free memory, and how much is missing."""
    for card, needed in more.items():
        missing = needed - int(state.space.card_memory_free[card])
        if needed > 0 and missing > 0:
            yield state.space.fixed.card_ids[card], missing
