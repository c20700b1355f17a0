"""Another part of a card's memory for a job that waits or runs.

Less than before is asked of the engine first: a program does not give back what it holds, and what nobody has given up
must not be promised to others. More is taken from what nobody holds, and told afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil

from gpusquad.core.never import refusal
from gpusquad.core.state import State
from gpusquad.core.transitions import JobState
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Role, Share
from gpusquad.model.units import show_bytes
from gpusquad.server.answers import PEAK, Change
from gpusquad.server.errors import Conflict
from gpusquad.server.services.desk import Desk
from gpusquad.server.services.records import job_of
from gpusquad.store.jobs import JobRow

_MIB = 1 << 20
MARGIN = 1.1
"""Over the most that was seen: samples miss the highest moment."""


def memory_of(job: Job) -> int | None:
    """What each task may hold of its card; None: they hold different parts, or none that was named."""
    named = {role.request.share.memory_bytes if role.request.share else 0 for role in job.roles}
    return named.pop() or None if len(named) == 1 else None


def with_memory(job: Job, memory_bytes: int) -> Job:
    return replace(job, roles=tuple(_resized(role, memory_bytes) for role in job.roles))


@dataclass(frozen=True, slots=True)
class Agreed:
    """``attempt``: the one that the engine has made smaller; None: none was to be."""

    change: Change
    attempt: int | None = None


class Resizing:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @contextmanager
    def agreed(self, row: JobRow, change: Change) -> Iterator[Agreed]:
        """By the thread that asks, for it may take seconds: the change with its bytes. If they are fewer, the engine
        has agreed, and gives them back should the rest be refused. Invalid: it cannot be."""
        if change.memory is None:
            yield Agreed(change)
            return
        if row.ended_us is not None:
            raise Conflict(f"job {row.id} is {row.state}", cure="only jobs that wait or run can be changed")
        job = self._desk.jobs.get(row.id) or job_of(row)
        self._check_kind(job)
        wanted = self._seen(row) if change.memory == PEAK else int(change.memory)
        if wanted <= 0:
            raise Invalid("memory", "is nothing", "give for example 6GiB, or peak")
        held = self._held(row, job) if JobState(row.state) == JobState.RUNNING else 0
        change, tasks = replace(change, memory=wanted), len((row.placement or {}).get("tasks", ()))
        if wanted >= held:
            yield Agreed(change)
            return
        self._desk.engine.resize(row.id, row.attempt, tasks, held, wanted)
        try:
            yield Agreed(change, row.attempt)
        except (Invalid, Conflict):
            with suppress(Invalid):
                self._desk.engine.resize(row.id, row.attempt, tasks, wanted, held)
            raise

    def check(self, row: JobRow, job: Job, agreed: Agreed) -> None:
        """In the scheduler's turn: that some card could hold it, or, of one that runs, that its own ones have room, and
        that whoever is to give something up was asked."""
        state = JobState(row.state)
        if state in (JobState.PENDING, JobState.HELD):
            never = refusal(self._desk.state, job, comes_back=True)
            if never is not None:
                raise Invalid("memory", never.message, never.cure)
            return
        if state != JobState.RUNNING:
            raise Conflict(f"job {row.id} is {row.state}", cure="change its memory once it runs")
        more = _more(self._desk.state, job.id, memory_of(job) or 0)
        if min(more.values(), default=0) < 0 and agreed.attempt != row.attempt:
            raise Conflict(f"job {row.id} has changed meanwhile", cure="try again")
        for card, missing in _short(self._desk.state, more):
            raise Invalid("memory", f"{card} has {show_bytes(missing)} too little that nobody holds", "ask for less")

    def _held(self, row: JobRow, job: Job) -> int:
        """By each of its tasks. 0: its cards are not known here any more."""
        tasks = (row.placement or {}).get("tasks", ())
        sizes, index = self._desk.fixed.card_memory, self._desk.fixed.card_index
        share = job.roles[0].request.share
        on = {int(sizes[index[card]]) for task in tasks for card in task["cards"] if card in index}
        held = {share.memory_on(size) for size in on} if share is not None else set()
        if len(held) > 1:
            raise Invalid("memory", "its tasks hold different parts of different cards", "change it when it waits")
        return min(held, default=0)

    def _check_kind(self, job: Job) -> None:
        if self._desk.cluster_engine is not None:
            cure = "change the pod template, and let its pods be made anew"
            raise Invalid("memory", "of a pod is fixed when the pod is made", cure)
        parts = {(share.memory_bytes, share.memory_milli) if share else (0, 0)
                 for share in (role.request.share for role in job.roles)}  # fmt: skip
        if len(parts) > 1 or (0, 0) in parts:
            raise Invalid("memory", "its tasks hold no part of a card's memory that could be changed",
                          "it is for jobs whose tasks all ask for the same share")  # fmt: skip

    def _seen(self, row: JobRow) -> int:
        seen = self._desk.peaks.seen(row.id, row.attempt)
        if not seen:
            raise Invalid("memory", "nothing was seen of it yet", "give an amount, or ask again when it has run")
        return ceil(seen * MARGIN / _MIB) * _MIB


def _resized(role: Role, memory_bytes: int) -> Role:
    share = role.request.share or Share(memory_bytes)
    return replace(role, request=replace(role.request, share=replace(share, memory_bytes=memory_bytes)))


def _more(state: State, job_id: str, wanted: int) -> Counter[int]:
    """What it takes of each of its cards if each task has so much, over what it holds."""
    run, fixed = state.runs[job_id], state.space.fixed
    more: Counter[int] = Counter()
    for part in run.placement.parts:
        share = run.job.groups[part.request_index][0].share
        for card in part.cards.ravel().tolist():
            more[card] += wanted - (share.memory_on(int(fixed.card_memory[card])) if share is not None else 0)
    return more


def _short(state: State, more: Counter[int]) -> Iterator[tuple[str, int]]:
    """Cards that have less than that, and how much less."""
    for card, needed in more.items():
        missing = needed - int(state.space.card_memory_free[card])
        if needed > 0 and missing > 0:
            yield state.space.fixed.card_ids[card], missing
