"""Preemption: which jobs may preempt which runs, and which victims cost least.

Three rules: a higher priority than the victim and than all jobs that wait ahead (``priority``), a job that the order
policy puts first (``order``), and a tenant that reclaims what others borrowed of its guarantee (``reclaim``).
``victims`` chooses those that lose the least work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from gpusquad.core.planning.commitments import guests, may_be_stopped, rank_of_run, stops_us
from gpusquad.core.planning.victims import (
    Allows,
    PreemptionRule,
    can_place,
    choose_victims,
    lost_us,
    may_leave_us,
    open_space,
)
from gpusquad.core.state.queue import PendingJob, rank_of
from gpusquad.core.state.runs import NEVER_US, Run, after_us
from gpusquad.core.state.state import SchedulerState, cards_of
from gpusquad.core.state.timeline import Reservation
from gpusquad.model.decision import Decision, Preempt
from gpusquad.model.placement import Placement
from gpusquad.model.units import US_PER_S, show_count, show_us

MAX_PREEMPTORS = 8
"""Number of jobs at the head of the queue that may preempt. Each costs a trial."""
LEAVING_US = 1
"""Planned time until victims have ended. The engine reports when they have."""


def preempt(state: SchedulerState) -> list[Decision]:
    """Preempt runs for jobs at the head of the queue, which start when the cards are free."""
    if not len(state.runs) or not len(state.queue) or not _enabled(state):
        return []
    decisions: list[Decision] = [*_stop_guests(state)]
    rules = _Rules(state)
    tried: set[tuple[int, str, int]] = set()
    ahead = -NEVER_US  # highest priority of the jobs ahead that go on waiting
    for position in range(min(MAX_PREEMPTORS, len(state.queue))):
        waiting = state.queue.at(position)
        if waiting.blocked or waiting.job.id in state.claims:
            continue
        for rule in rules.of(waiting, ahead):
            key = (waiting.shape, rule.name, len(rule.victims))
            victims = choose_victims(state, waiting, rule) if key not in tried else []
            tried.add(key)
            if victims:
                decisions.extend(_evict(state, waiting, rule, victims))
                rules = _Rules(state)
                tried.clear()
                break
        else:
            ahead = max(ahead, waiting.job.priority_level)
    return decisions


def _stop_guests(state: SchedulerState) -> Iterable[Decision]:
    """Preempt the guests that keep a job from its pinned cards, if all of them may be stopped for that."""
    for job_id in [i for i in state.pins if i in state.timeline.reservations and i not in state.claims]:
        waiting = state.queue[job_id]
        holders = [state.runs[i] for i in state.pins[job_id].holders if i in state.runs]
        over = [run for run in guests(state, waiting, holders) if stops_us(state, run) <= state.now_us]
        if not holders or len(over) < len(holders) or not all(may_be_stopped(state, run) for run in holders):
            continue
        if any(run.job.priority_level > waiting.job.priority_level for run in holders):
            continue  # it may have preempted this very job
        if _fits_without(state, waiting, holders):
            yield from _evict(state, waiting, PreemptionRule("overstay", holders), holders)


def _fits_without(state: SchedulerState, waiting: PendingJob, victims: list[Run]) -> bool:
    space = open_space(state, waiting)
    for run in victims:
        space.release(run.job, run.placement)
    return can_place(state, space, waiting)


def next_overstay_us(state: SchedulerState) -> int:
    """When the next guest that may be stopped for a reservation has outlived its time."""
    if not state.timeline.reservations:
        return NEVER_US
    if state.suspends:  # a guest is stopped as soon as it keeps a job waiting, but not at the instant of its start
        holders = (run for pin in state.pins.values() for i in pin.holders if (run := state.runs.by_id.get(i)))
        return state.now_us + 1 if any(run.started_us == state.now_us for run in holders) else NEVER_US
    if state.policies.preemption.overstay == "never":
        return NEVER_US
    runs = state.runs.checkpointed if state.policies.preemption.overstay == "checkpointed" else state.runs.by_id
    later = (run for run in runs.values() if run.admitted_until_us >= state.now_us)
    return min((run.admitted_until_us + 1 for run in later if may_be_stopped(state, run)), default=NEVER_US)


def next_victim_us(state: SchedulerState) -> int:
    """When the next run has run for long enough to be preempted."""
    rule = state.policies.preemption
    if rule.by == "none":
        return NEVER_US
    first = (state.queue.at(i).job.priority_level for i in range(min(MAX_PREEMPTORS, len(state.queue))))
    below = NEVER_US if rule.by == "order" and state.policies.order.preempts else max(first, default=-NEVER_US)
    if not state.runs.any_below(below):
        return NEVER_US
    runs = (run for run in state.runs.by_id.values() if not run.leaving and run.job.priority_level < below)
    return min((at_us for run in runs if (at_us := may_leave_us(state, run)) > state.now_us), default=NEVER_US)


def next_reclaim_us(state: SchedulerState) -> int:
    """When the next pending job may reclaim borrowed GPUs."""
    if not _any_guarantee(state):
        return NEVER_US
    due = (w.job.eligible_us + _reclaim_us(state, w) for w in state.queue if state.accounts.under_guarantee(w.job))
    return min((at_us for at_us in due if at_us > state.now_us), default=NEVER_US)


def _evict(state: SchedulerState, waiting: PendingJob, rule: PreemptionRule, victims: list[Run]) -> Iterable[Decision]:
    """Preempt the victims and reserve their cards for the pending job, ahead of all reservations."""
    job, now_us = waiting.job, state.now_us
    state.rebuild_reservations(f"{job.id} preempts others by {rule.name}")
    space = open_space(state, waiting)
    for run in victims:
        run.leaving = True
        state.runs.move_end(run, now_us + LEAVING_US)
        space.release(run.job, run.placement)
        yield Preempt(run.job.id, job.id, _words(state, waiting, rule, run))
    placement = state.try_place(space, job)
    assert isinstance(placement, Placement)
    start_us = now_us + LEAVING_US
    state.claims[job.id] = rule.name
    state.timeline.reservations[job.id] = Reservation(job, start_us, after_us(start_us, waiting.stay_us), placement)
    state.first_reserved_us.setdefault(job.id, start_us)


def _words(state: SchedulerState, waiting: PendingJob, rule: PreemptionRule, run: Run) -> str:
    lost, cards = lost_us(state, run), show_count(cards_of(run.placement), "card")
    cost = f"{show_us(lost)} of work and restart" if lost else "no work"
    return f"{rule.name}: {cards} for {waiting.job.id}; it loses {cost}"


def _enabled(state: SchedulerState) -> bool:
    return state.policies.preemption.by != "none" or bool(state.pins) or _any_guarantee(state)


def _any_guarantee(state: SchedulerState) -> bool:
    return any(t.guaranteed_gpus is not None for t in state.accounts.tenants.values())


class _Rules:
    """Possible victims, computed at most once for all pending jobs."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._ranks: dict[str, tuple] = {}

    @cached_property
    def _staying(self) -> list[Run]:
        """A run that started at this instant stays. Otherwise two jobs could preempt each other endlessly at one
        instant."""
        return [
            run
            for run in self._state.runs.by_id.values()
            if not run.leaving and run.job.checkpoint.preemptible and run.started_us < self._state.now_us
        ]

    @cached_property
    def _leavers(self) -> list[Run]:
        return [run for run in self._staying if may_leave_us(self._state, run) <= self._state.now_us]

    def of(self, waiting: PendingJob, ahead: int) -> Iterable[PreemptionRule]:
        """The rules by which this job may preempt others, the strongest first. ``ahead``: the highest priority of the
        jobs that wait before it. One with the same priority would be pushed back, because it waits for the victims to
        end, and they come back."""
        state, job = self._state, waiting.job
        if state.accounts.under_guarantee(job) and state.now_us - job.eligible_us >= _reclaim_us(state, waiting):
            others = [run for run in self._staying if run.job.tenant != job.tenant]
            yield PreemptionRule("reclaim", others, _paying_back(state))
        by = state.policies.preemption.by
        if by == "none":
            return
        if job.priority_level > ahead and state.runs.any_below(job.priority_level):
            lower = [run for run in self._leavers if run.job.priority_level < job.priority_level]
            yield PreemptionRule("priority", lower)
        if by == "order" and state.policies.order.preempts:
            mine = rank_of(waiting, state.key)
            yield PreemptionRule("order", [run for run in self._leavers if mine < self._rank(run)])

    def _rank(self, run: Run) -> tuple:
        if run.job.id not in self._ranks:
            self._ranks[run.job.id] = rank_of_run(self._state, run)
        return self._ranks[run.job.id]


def _paying_back(state: SchedulerState) -> Allows:
    """A tenant returns no more than it borrowed: without the largest of its victims, it would still have borrowed."""

    def allows(victims: Sequence[Run]) -> bool:
        returned: dict[str, list[int]] = {}
        for run in victims:
            returned.setdefault(run.job.tenant, []).append(cards_of(run.placement))
        return all(sum(cards) - max(cards) < state.accounts.borrowed(owner) for owner, cards in returned.items())

    return allows


def _reclaim_us(state: SchedulerState, waiting: PendingJob) -> int:
    return round(state.accounts.tenant(waiting.job.tenant).reclaim_s * US_PER_S)
