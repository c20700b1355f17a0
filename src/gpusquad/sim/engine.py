"""The simulated engine: jobs run in virtual time, slow each other down, end, and lose work when preempted."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gpusquad.core.ports import Event, GangEnded, GangResized, GangSlowed
from gpusquad.model.decision import Decision, Preempt, Refuse, Resize, Start, Stop
from gpusquad.model.interference import Rate
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.units import WHOLE_MILLI
from gpusquad.sim.outcome import AttemptSpan, CardIndexes, Outcome
from gpusquad.sim.traces import TraceJob

LEAST_RATE = 0.01
"""Lower bound of a rate. With a rate of zero a job would never end."""


@dataclass(slots=True, eq=False)
class SimulatedGang:
    """A running gang."""

    trace: TraceJob
    placement: Placement
    started_us: int
    left_us: float
    """Solo work still to do, restart included."""
    at_us: int
    rate: float
    end_us: int
    busy_milli: int
    version: int = 0
    overhead_us: int = 0
    """The part of the work that is restart overhead, which no checkpoint keeps."""


class SimEngine:
    """Carries out decisions in virtual time."""

    def __init__(self, jobs: dict[str, TraceJob], outcomes: dict[str, Outcome], rate: Rate | None,
                 gpu_models: Sequence[str] = (), suspends: bool = False) -> None:  # fmt: skip
        self._jobs = jobs
        self._outcomes = outcomes
        self._rate = rate
        self._gpu_models = gpu_models
        """Memory of each card; empty: unknown."""
        self._suspends = suspends
        self._working: dict[str, SimulatedGang] = {}
        self._kept_us: dict[str, int] = {}
        self._ends: list[tuple[int, int, int, str]] = []
        self._sequence = 0
        self._on_card: defaultdict[int, list[str]] = defaultdict(list)
        self.immediate: list[Event] = []
        """Events that decisions cause at the same instant."""
        self.busy_milli = 0

    def next_end_us(self) -> int | None:
        """The next end that is still valid."""
        while self._ends:
            end_us, _, version, job_id = self._ends[0]
            work = self._working.get(job_id)
            if work is not None and work.version == version and work.end_us == end_us:
                return end_us
            heapq.heappop(self._ends)
        return None

    def due(self, now_us: int) -> list[str]:
        """Gangs that end at this instant, in the order they started."""
        ending = []
        while self.next_end_us() == now_us:
            ending.append(heapq.heappop(self._ends)[3])
        return ending

    def end(self, job_id: str, now_us: int) -> GangEnded:
        """A gang ends by itself."""
        work = self._leave(job_id, now_us)
        outcome = self._outcomes[job_id]
        how = work.trace.outcome
        outcome.end, outcome.ended_us = how, now_us
        return GangEnded(job_id, how)

    def carry_out(self, now_us: int, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Start):
                self._start(decision, now_us)
            elif isinstance(decision, Preempt):
                self.immediate.append(self.interrupt(decision.job_id, now_us, "preempted"))
            elif isinstance(decision, Refuse):
                outcome = self._outcomes[decision.job_id]
                outcome.end, outcome.why = "refused", str(decision.reason)
            elif isinstance(decision, Resize):
                self._resize(decision, now_us)
            elif isinstance(decision, Stop) and decision.job_id in self._working:
                self.immediate.append(self._stop(decision, now_us))

    def _resize(self, decision: Resize, now_us: int) -> None:
        """Change the number of tasks: the remaining work goes faster or slower in proportion."""
        work = self._leave(decision.job_id, now_us)
        job = work.trace.job
        shrinks = len(decision.placement.all_nodes()) < len(work.placement.all_nodes())
        self._outcomes[job.id].spans[-1].cut = "resized"
        solo_left_us = work.left_us * _elastic_speed(job, work.placement)
        self._work_on(work.trace, decision.placement, solo_left_us, 0, now_us)
        if shrinks:
            self.immediate.append(GangResized(job.id))

    def _stop(self, decision: Stop, now_us: int) -> GangEnded:
        """Remove a finished gang from its cards."""
        self._leave(decision.job_id, now_us)
        outcome = self._outcomes[decision.job_id]
        outcome.end, outcome.ended_us, outcome.why = "timed_out", now_us, decision.cause
        return GangEnded(decision.job_id, "timed_out")

    def interrupt(self, job_id: str, now_us: int, how) -> GangEnded:
        """Remove a gang from its cards before its end. Work up to the last checkpoint is kept; all work, if the gang
        is preempted and preempting suspends it."""
        work = self._leave(job_id, now_us)
        solo_us = work.trace.run_us
        before_us = self._kept_us.get(job_id, 0)
        done_us = max(before_us, int(solo_us - work.left_us * _elastic_speed(work.trace.job, work.placement)))
        every_us = 1 if self._suspends and how == "preempted" else work.trace.job.checkpoint.every_us
        kept_us = max(before_us, done_us // every_us * every_us) if every_us else before_us
        self._kept_us[job_id] = kept_us
        self._outcomes[job_id].lost_us += done_us - kept_us + min(work.overhead_us, now_us - work.started_us)
        self._outcomes[job_id].spans[-1].cut = how
        return GangEnded(job_id, how, kept_us - before_us)

    def on_card(self, card: int) -> list[str]:
        return list(self._on_card.get(card, ()))

    def ends_at(self, job_id: str, now_us: int) -> bool:
        """Whether that gang is still running and finishes at this instant."""
        return job_id in self._working and self._working[job_id].end_us == now_us

    def working(self) -> list[str]:
        return list(self._working)

    def _start(self, decision: Start, now_us: int) -> None:
        trace = self._jobs[decision.job_id]
        job = trace.job
        overhead_us = job.checkpoint.restart_us if self._outcomes[job.id].spans else 0
        solo_left_us = trace.run_us - self._kept_us.get(job.id, 0) + overhead_us
        self._work_on(trace, decision.placement, solo_left_us, overhead_us, now_us)

    def _work_on(
        self, trace: TraceJob, placement: Placement, solo_left_us: float, overhead_us: int, now_us: int
    ) -> None:
        job = trace.job
        cards = placement.all_cards()
        left_us = solo_left_us / _elastic_speed(job, placement)
        work = SimulatedGang(
            trace, placement, now_us, left_us, now_us, 1.0, 0, _busy_milli(job, placement), overhead_us=overhead_us
        )
        self._working[job.id] = work
        self.busy_milli += work.busy_milli
        self._outcomes[job.id].spans.append(AttemptSpan(now_us, now_us, CardIndexes(cards)))
        self._schedule(work, now_us)
        if job.has_shares or self._tracks_cards:
            for card in cards:
                self._on_card[card].append(job.id)
        if job.has_shares:
            self._rerate(cards, now_us)

    _tracks_cards = False

    def track_cards(self) -> None:
        """Track the gangs on every card (needed when cards can fail)."""
        self._tracks_cards = True

    def _leave(self, job_id: str, now_us: int) -> SimulatedGang:
        work = self._working.pop(job_id)
        work.left_us -= (now_us - work.at_us) * work.rate
        self.busy_milli -= work.busy_milli
        self._outcomes[job_id].spans[-1].ended_us = now_us
        if work.trace.job.has_shares or self._tracks_cards:
            cards = work.placement.all_cards()
            for card in cards:
                self._on_card[card].remove(job_id)
            if work.trace.job.has_shares:
                self._rerate(cards, now_us)
        return work

    def _schedule(self, work: SimulatedGang, now_us: int) -> None:
        """(Re)compute the end at the current rate."""
        end_us = work.end_us = now_us + max(0, -int(-work.left_us // work.rate))
        self._sequence += 1
        work.version = self._sequence  # never used before, not even for an earlier attempt with the same end
        heapq.heappush(self._ends, (end_us, self._sequence, work.version, work.trace.job.id))

    def _rerate(self, cards: Sequence[int], now_us: int) -> None:
        """Neighbours changed on these cards: a gang runs at the rate of its slowest task."""
        if self._rate is None:
            return
        for job_id in dict.fromkeys(j for card in cards for j in self._on_card[card]):
            work = self._working[job_id]
            rate = min(self._rate_on(card, work) for card in work.placement.all_cards())
            if rate == work.rate:
                continue
            work.left_us -= (now_us - work.at_us) * work.rate
            work.at_us, slower_by = now_us, work.rate / rate
            work.rate = rate
            self._schedule(work, now_us)
            self.immediate.append(GangSlowed(job_id, slower_by))

    def _rate_on(self, card: int, work: SimulatedGang) -> float:
        assert self._rate is not None
        others = list(self._on_card[card])
        others.remove(work.trace.job.id)
        if not others:
            return 1.0
        gpu = self._gpu_models[card] if self._gpu_models else ""
        return max(self._rate(work.trace.job, [self._jobs[j].job for j in others], gpu), LEAST_RATE)


def _elastic_speed(job: Job, placement: Placement) -> float:
    """The work of an elastic gang scales with its number of tasks."""
    if not job.is_elastic:
        return 1.0
    return sum(len(part.nodes) for part in placement.parts) / job.tasks


def _busy_milli(job: Job, placement: Placement) -> int:
    """GPU thousandths held: a whole card is 1000, a share its SM fraction (memory-only shares hold none)."""
    total = 0
    for part in placement.parts:
        request = job.groups[part.request_index][0]
        total += len(part.nodes) * (request.gpus * WHOLE_MILLI if request.share is None else request.share.sm_milli)
    return total
