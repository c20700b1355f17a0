"""Forecasts: when a pending job starts and what one more job would change, by replaying the plan on a copy.

An ETA assumes that no job arrives and that every gang ends at its predicted end. It is computed twice, with the medians
and with the high quantiles.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.feasibility import refusal
from gpusquad.core.planning.elastic import apply_shrink
from gpusquad.core.planning.outage import next_opening_us
from gpusquad.core.planning.preemption import next_reclaim_us
from gpusquad.core.state.runs import NEVER_US, Run, is_foreseeable
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.model.decision import Decision, Preempt, Resize, Start, Stop
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Reason
from gpusquad.model.views import RunTimePrediction

Quantile = Literal["mid", "high"]
STEPS = 5000
"""Maximum number of instants to replay. A later start is unknown."""
_CYCLES_AT_ONCE = 100
"""Maximum number of cycles at one instant. A cycle after a preemption uses the freed cards."""


@dataclass(frozen=True, slots=True)
class Eta:
    """Forecast start of a job. None: unknown."""

    start_us: int | None
    high_us: int | None
    """A late start: learned from past forecasts, or the start if every run takes its high quantile."""
    promised_us: int | None = None
    """Start by its reservation. None: it has none."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Effects of one more job."""

    refused: Reason | None
    starts_now: bool
    placement: Placement | None
    """Its placement if it starts now."""
    eta: Eta
    delayed: tuple[tuple[str, int], ...] = ()
    """Pending jobs that would start later, with the delay in microseconds, largest first."""
    preempted: tuple[str, ...] = ()
    """Running jobs that would be preempted for it now."""


def when(state: SchedulerState, job_id: str, steps: int = STEPS) -> Eta:
    """Forecast the start of a pending job."""
    if job_id not in state.queue:
        raise Invalid("job", f"there is no pending job {job_id!r}")
    mid, high = Replay(state, "mid"), Replay(state, "high")
    mid.run({job_id}, steps)
    high.run({job_id}, steps)
    return _eta(mid, high, job_id)


def promised_us(state: SchedulerState, job_id: str) -> int:
    """The start that was promised first to a job with a reservation; to one that was preempted, since then."""
    first_us = state.timeline.reservations[job_id].first_us
    return state.committed_us.get(job_id, first_us) if state.queue[job_id].attempt else first_us


def what_if(state: SchedulerState, job: Job, prediction: RunTimePrediction, steps: int = STEPS) -> WhatIf:
    """Effects of submitting the job now. Its ``submitted_us`` is used as given."""
    if job.id in state.queue or job.id in state.runs:
        raise Invalid("job.id", f"{job.id!r} already exists", "use another id")
    with_it = copy_state(state)
    reason = refusal(with_it, job)
    if reason is not None:
        return WhatIf(reason, False, None, Eta(None, None))
    with_it.enqueue(job, prediction)
    then = Replay(with_it, "mid")
    then.run({job.id, *_pending(state)}, steps)
    high = Replay(with_it, "high")
    high.run({job.id}, steps)
    first = next((d for d in then.first if isinstance(d, Start) and d.job_id == job.id), None)
    return WhatIf(
        None, first is not None, first.placement if first else None,
        _eta(then, high, job.id), _delays(state, then, steps),
        tuple(d.job_id for d in then.first if isinstance(d, Preempt) and d.for_job == job.id),
    )  # fmt: skip


class Replay:
    """A copy of the state, replayed into the future."""

    def __init__(self, state: SchedulerState, quantile: Quantile) -> None:
        self.state = copy_state(state)
        self.started: dict[str, int] = {}
        """First start of each job that is pending now."""
        self.placed: dict[str, Placement] = {}
        self._quantile = quantile
        self._from_us = state.now_us
        self._ends: list[tuple[int, str, int]] = []
        self._versions: dict[str, int] = {}
        """Number of end predictions of each gang. Only the last one is valid."""
        self.first = self._decide(state.now_us)
        promised = {name: promised_us(self.state, name) for name in self.state.timeline.reservations}
        self.reserved_us = {name: at_us for name, at_us in promised.items() if is_foreseeable(at_us, state.now_us)}
        """Latest starts by the first reservation, after the first cycle."""
        for run in self.state.runs.by_id.values():
            if run.job.id not in self._versions:
                self._expect(run)

    def run(self, jobs: Collection[str], steps: int) -> None:
        """Replay until all of these have started or no further event is known."""
        missing = set(jobs) - set(self.started)
        while missing and steps > 0:
            now_us = self._next_us()
            if not is_foreseeable(now_us, self._from_us):
                break
            self._end_until(now_us)
            self._decide(now_us)
            missing -= set(self.started)
            steps -= 1

    def _decide(self, now_us: int) -> list[Decision]:
        """Run a cycle and its immediate consequences; returns the decisions of the first cycle."""
        first = decisions = cycle(self.state, now_us)
        for _ in range(_CYCLES_AT_ONCE):
            freed = [self._carry_out(decision) for decision in decisions]
            if not any(freed):
                break
            decisions = cycle(self.state, now_us)
        return first

    def _carry_out(self, decision: Decision) -> bool:
        """Carry out a decision; returns whether capacity was freed."""
        if isinstance(decision, Start):
            self.started.setdefault(decision.job_id, self.state.now_us)
            self.placed.setdefault(decision.job_id, decision.placement)
            self._expect(self.state.runs[decision.job_id])
            return False
        if isinstance(decision, (Preempt, Stop)):
            self._leave(decision)
            return True
        if isinstance(decision, Resize):
            shrinks = self.state.runs[decision.job_id].shrinks_to is not None
            if shrinks:
                apply_shrink(self.state, decision.job_id)
            self._expect(self.state.runs[decision.job_id])
            return shrinks
        return False

    def _leave(self, decision: Preempt | Stop) -> None:
        run = self.state.finish(decision.job_id)
        if isinstance(decision, Preempt):
            every_us = run.job.checkpoint.every_us
            ran_us = self.state.now_us - run.started_us
            self.state.requeue(run, ran_us // every_us * every_us if every_us else 0, preempted=True)

    def _expect(self, run: Run) -> None:
        """Schedule the end of a gang in this replay."""
        end_us = run.end_us if self._quantile == "mid" else run.high_end_us
        if run.job.limit_us is not None:
            end_us = min(end_us, run.started_us + run.job.limit_us)
        version = self._versions[run.job.id] = self._versions.get(run.job.id, 0) + 1
        heapq.heappush(self._ends, (max(end_us, self.state.now_us), run.job.id, version))

    def _is_valid(self, entry: tuple[int, str, int]) -> bool:
        return entry[1] in self.state.runs and self._versions[entry[1]] == entry[2]

    def _next_us(self) -> int:
        state = self.state
        while self._ends and not self._is_valid(self._ends[0]):
            heapq.heappop(self._ends)
        times = [self._ends[0][0] if self._ends else NEVER_US, next_reclaim_us(state),
                 next_opening_us(state, state.now_us)]  # fmt: skip
        if state.runs.ends:
            times.append(state.runs.ends[0][0] + 1)  # an overrun is noticed then
        for window in state.timeline.windows:
            times += [at_us for at_us in (window.start_us, window.end_us) if at_us is not None and at_us > state.now_us]
        return min(times)

    def _end_until(self, now_us: int) -> None:
        self.state.now_us = now_us
        while self._ends and self._ends[0][0] <= now_us:
            entry = heapq.heappop(self._ends)
            if self._is_valid(entry):
                self.state.finish(entry[1])


def _eta(mid: Replay, high: Replay, job_id: str) -> Eta:
    mid_us, high_us = mid.started.get(job_id), high.started.get(job_id)
    if mid_us is not None and high_us is not None:
        high_us = max(mid_us, high_us)  # longer runs can let a gang start earlier; keep the range ordered
    return Eta(mid_us, high_us if mid_us is not None else None, mid.reserved_us.get(job_id))


def _pending(state: SchedulerState) -> set[str]:
    return {waiting.job.id for waiting in state.queue}


def _delays(state: SchedulerState, then: Replay, steps: int) -> tuple[tuple[str, int], ...]:
    """Pending jobs that would start later than without the job."""
    without = Replay(state, "mid")
    without.run(_pending(state), steps)
    both = [(name, then.started[name] - at_us) for name, at_us in without.started.items() if name in then.started]
    return tuple(sorted((pair for pair in both if pair[1] > 0), key=lambda pair: (-pair[1], pair[0])))
