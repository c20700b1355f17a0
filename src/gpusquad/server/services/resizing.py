"""Another part of a card's memory for a job that waits or runs.

Less than before is asked of the engine first: a program does not give back what it holds, and what nobody has given up
must not be promised to others. More is taken from what nobody holds, and told afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
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


class Resizing:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def prepare(self, row: JobRow, change: Change) -> Change:
        """By the thread that asks, for it may take seconds: the change with its bytes, which the engine has agreed to.
        Invalid: it cannot be."""
        if change.memory is None:
            return change
        if row.ended_us is not None:
            raise Conflict(f"job {row.id} is {row.state}", cure="only jobs that wait or run can be changed")
        before = self._before(self._desk.jobs.get(row.id) or job_of(row))
        wanted = self._seen(row) if change.memory == PEAK else int(change.memory)
        if wanted <= 0:
            raise Invalid("memory", "is nothing", "give for example 6GiB, or peak")
        if wanted < before and JobState(row.state) == JobState.RUNNING:
            tasks = len((row.placement or {}).get("tasks", ()))
            self._desk.engine.resize(row.id, row.attempt, tasks, before, wanted)
        return replace(change, memory=wanted)

    def check(self, row: JobRow, before: Job, job: Job) -> None:
        """In the scheduler's turn: that some card could hold it, or, of one that runs, that its own ones have room."""
        state = JobState(row.state)
        if state in (JobState.PENDING, JobState.HELD):
            never = refusal(self._desk.state, job, comes_back=True)
            if never is not None:
                raise Invalid("memory", never.message, never.cure)
            return
        if state != JobState.RUNNING:
            raise Conflict(f"job {row.id} is {row.state}", cure="change its memory once it runs")
        more = (memory_of(job) or 0) - (memory_of(before) or 0)
        for card, missing in _short(self._desk.state, job.id, more):
            raise Invalid("memory", f"{card} has {show_bytes(missing)} too little that nobody holds", "ask for less")

    def _before(self, job: Job) -> int:
        if self._desk.cluster_engine is not None:
            cure = "change the pod template, and let its pods be made anew"
            raise Invalid("memory", "of a pod is fixed when the pod is made", cure)
        before = memory_of(job)
        if before is None:
            raise Invalid("memory", "its tasks hold no part of a card's memory that could be changed",
                          "it is for jobs whose tasks all ask for the same share.memory")  # fmt: skip
        return before

    def _seen(self, row: JobRow) -> int:
        seen = self._desk.peaks.seen(row.id, row.attempt)
        if not seen:
            raise Invalid("memory", "nothing was seen of it yet", "give an amount, or ask again when it has run")
        return ceil(seen * MARGIN / _MIB) * _MIB


def _resized(role: Role, memory_bytes: int) -> Role:
    share = role.request.share or Share(memory_bytes)
    return replace(role, request=replace(role.request, share=replace(share, memory_bytes=memory_bytes)))


def _short(state: State, job_id: str, more: int) -> Iterator[tuple[str, int]]:
    """Cards of a run that lack memory for so much more of each of its tasks, and how much."""
    placement = state.runs[job_id].placement
    for card, tasks in Counter(int(card) for part in placement.parts for card in part.cards.ravel()).items():
        missing = more * tasks - int(state.space.card_memory_free[card])
        if more > 0 and missing > 0:
            yield state.space.fixed.card_ids[card], missing
