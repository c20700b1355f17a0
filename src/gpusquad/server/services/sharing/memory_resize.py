"""Another part of a card's memory for a job that waits or runs.

Less than before is asked of the engine first: a program does not give back what it holds, and what nobody has given up
must not be promised to others. More is taken from what nobody holds, and told afterwards.
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
from gpusquad.server.errors import Conflict
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.records import cards_of, job_of
from gpusquad.store.jobs import JobRow

_MIB = 1 << 20
MARGIN = 1.1
"""Over the most that was seen: samples miss the highest moment."""


def memory_of(job: Job, row: JobRow, fixed: ClusterArrays) -> int | None:
    """What each task may hold of its card; None: not the same for all, nothing that was named, or a part of a card
    whose memory is not known."""
    amounts = _amounts(job, row, fixed)
    return amounts.pop() or None if len(amounts) == 1 else None


def resizes(change: JobChange) -> bool:
    return change.memory is not None or change.memory_milli is not None


def with_memory(job: Job, change: JobChange) -> Job:
    """``PEAK`` is an amount by now."""
    memory_bytes, memory_milli = int(change.memory or 0), change.memory_milli or 0
    return replace(job, roles=tuple(_resized(role, memory_bytes, memory_milli) for role in job.roles))


@dataclass(frozen=True, slots=True)
class ResizeAgreement:
    """``attempt``: the one that the engine has made smaller; None: none was to be."""

    change: JobChange
    attempt: int | None = None


class MemoryResizer:
    def __init__(self, context: SchedulerContext) -> None:
        self._context = context

    @contextmanager
    def agreed(self, row: JobRow, change: JobChange) -> Iterator[ResizeAgreement]:
        """By the thread that asks, for it may take seconds: the change with its bytes. If they are fewer, the engine
        has agreed, and gives them back should the rest be refused. Invalid: it cannot be."""
        if not resizes(change):
            yield ResizeAgreement(change)
            return
        if row.ended_us is not None:
            raise Conflict(f"job {row.id} is {row.state}", cure="only jobs that wait or run can be changed")
        job = self._context.jobs.get(row.id) or job_of(row)
        self._check_kind(job)
        if change.memory == PEAK:
            change = replace(change, memory=self._seen(row, job))
        if not (change.memory or change.memory_milli):
            raise Invalid("memory", "is nothing", "give for example 6GiB, 30% or peak")
        runs = JobState(row.state) == JobState.RUNNING
        held, wanted = (self._each(row, job), self._wanted(row, with_memory(job, change))) if runs else (0, 0)
        if wanted >= held:
            yield ResizeAgreement(change)
            return
        tasks = len((row.placement or {}).get("tasks", ()))
        self._context.engine.resize(row.id, row.attempt, tasks, held, wanted)
        try:
            yield ResizeAgreement(change, row.attempt)
        except (Invalid, Conflict):
            with suppress(Invalid):
                self._context.engine.resize(row.id, row.attempt, tasks, wanted, held)
            raise

    def check(self, row: JobRow, job: Job, agreed: ResizeAgreement) -> None:
        """In the scheduler's turn: that some card could hold it, or, of one that runs, that its own ones have room, and
        that whoever is to give something up was asked."""
        state = JobState(row.state)
        if state in (JobState.PENDING, JobState.HELD):
            never = refusal(self._context.state, job, comes_back=True)
            if never is not None:
                raise Invalid("memory", never.message, never.cure)
            return
        if state != JobState.RUNNING:
            raise Conflict(f"job {row.id} is {row.state}", cure="change its memory once it runs")
        self._wanted(row, job)
        more = _more(self._context.state, job)
        if min(more.values(), default=0) < 0 and agreed.attempt != row.attempt:
            raise Conflict(f"job {row.id} has changed meanwhile", cure="try again")
        for card, missing in _short(self._context.state, more):
            raise Invalid("memory", f"{card} has {show_bytes(missing)} too little that nobody holds", "ask for less")

    def _each(self, row: JobRow, job: Job) -> int:
        """What each of its tasks may hold where it runs. 0: a part of a card whose memory is not known here."""
        amounts = _amounts(job, row, self._context.fixed)
        if len(amounts) > 1:
            raise Invalid("memory", "its tasks hold different parts of different cards", "change it when it waits")
        return min(amounts, default=0)

    def _wanted(self, row: JobRow, job: Job) -> int:
        each = self._each(row, job)
        if not each:
            raise Invalid("memory", "a percentage of a card whose memory is not known", "change it when it waits")
        return each

    def _check_kind(self, job: Job) -> None:
        if self._context.cluster_engine is not None:
            cure = "change the pod template, and let its pods be made anew"
            raise Invalid("memory", "of a pod is fixed when the pod is made", cure)
        parts = {(share.memory_bytes, share.memory_milli) if share else (0, 0)
                 for share in (role.request.share for role in job.roles)}  # fmt: skip
        if len(parts) > 1 or (0, 0) in parts:
            raise Invalid("memory", "its tasks hold no part of a card's memory that could be changed",
                          "it is for jobs whose tasks all ask for the same share")  # fmt: skip

    def _seen(self, row: JobRow, job: Job) -> int:
        """By what its programs' library has counted of each task, and by samples: these miss the highest moment, and
        see programs without the library too. Never more than it may hold now."""
        if self._context.simulated:  # samples show what it holds of the machine's memory instead
            raise Invalid("memory", "the cards are simulated, and nobody holds anything of them",
                          "give an amount, for example 6GiB")  # fmt: skip
        peaks = self._context.peaks
        tasks = len((row.placement or {}).get("tasks", ()))
        counted = self._context.engine.peak_memory_bytes(row.id, row.attempt, tasks)
        if not (peaks.is_whole(row.id, row.attempt) or all(counted)):
            raise Invalid("memory", "it began before the service did, and nobody knows what it held until then",
                          "give an amount, for example 6GiB")  # fmt: skip
        seen = _most_held(counted, peaks.seen(row.id, row.attempt) or 0)
        if not seen:
            raise Invalid("memory", "nothing was seen of it on a card yet",
                          "give an amount, or ask again when it has used its card")  # fmt: skip
        wanted = ceil(seen * MARGIN / _MIB) * _MIB
        runs = JobState(row.state) == JobState.RUNNING
        return min(wanted, (self._each(row, job) if runs else 0) or wanted)


def _most_held(counted: Sequence[int], sampled: int) -> int:
    """By any one task. A sample is of all tasks on a card together: what it shows beyond their counts is somebody's."""
    if not all(counted):
        return max(sampled, *counted, 0)
    return max(counted, default=0) + max(0, sampled - sum(counted))


def _resized(role: Role, memory_bytes: int, memory_milli: int) -> Role:
    share = role.request.share or Share(memory_bytes, memory_milli=memory_milli)
    share = replace(share, memory_bytes=memory_bytes, memory_milli=memory_milli)
    return replace(role, request=replace(role.request, share=share))


def _amounts(job: Job, row: JobRow, fixed: ClusterArrays) -> set[int]:
    """That its tasks may hold of the cards they are on; 0: nothing that was named, or nobody knows."""
    sizes = {int(fixed.card_memory[fixed.card_index[card]]) for card in cards_of(row) if card in fixed.card_index}
    amounts: set[int] = set()
    for share in {role.request.share for role in job.roles}:
        if share is None or share.is_slot_only or share.memory_bytes:
            amounts.add(share.memory_bytes if share is not None else 0)
        else:
            amounts |= {share.memory_on(size) for size in sizes}
    return amounts


def _more(state: SchedulerState, job: Job) -> Counter[int]:
    """What it takes of each of its cards as it is now to be, over what it holds."""
    run, wanted = state.runs[job.id], job.roles[0].request.share
    more: Counter[int] = Counter()
    for part in run.placement.parts:
        held = run.job.groups[part.request_index][0].share
        for card in part.cards.ravel().tolist():
            card_bytes = int(state.space.fixed.card_memory[card])
            more[card] += _counted(wanted, card_bytes) - _counted(held, card_bytes)
    return more


def _counted(share: Share | None, card_bytes: int) -> int:
    return share.memory_on(card_bytes) if share is not None else 0


def _short(state: SchedulerState, more: Counter[int]) -> Iterator[tuple[str, int]]:
    """Cards that have less than that, and how much less."""
    for card, needed in more.items():
        missing = needed - int(state.space.card_memory_free[card])
        if needed > 0 and missing > 0:
            yield state.space.fixed.card_ids[card], missing
