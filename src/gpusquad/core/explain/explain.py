"""Why a job is pending, its position, its start, and what-if queries. Runs the cycle's own code on a copy, so the given
state does not change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from math import inf

from gpusquad.core.cycle import cycle
from gpusquad.core.explain.feasibility import refusal, why_never
from gpusquad.core.explain.forecast import Eta, WhatIf, promised_us, what_if, when
from gpusquad.core.explain.shape_fit import listed
from gpusquad.core.explain.shortages import shortages
from gpusquad.core.planning.commitments import guests
from gpusquad.core.planning.limit_heads import limit_head_of
from gpusquad.core.planning.session import CycleSession
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, Run, after_us, is_foreseeable
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.state_copy import copy_state
from gpusquad.core.state.timeline import Reservation
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.units import show_count, show_us

__all__ = [
    "Eta",
    "Explainer",
    "WhatIf",
    "copy_state",
    "position",
    "promised_us",
    "refusal",
    "what_if",
    "when",
    "why",
    "why_never",
    "whys",
]


def why(state: SchedulerState, job_id: str) -> list[Reason]:
    """All reasons why a pending job does not start now. Empty: the cycle would start it."""
    _check_pending(state, job_id)
    return next(reasons for _, reasons in whys(state, (job_id,)))


def whys(state: SchedulerState, job_ids: Iterable[str], spend: bool = False) -> Iterator[tuple[str, list[Reason]]]:
    """The same for several jobs, with one copy and one cycle for all of them.

    ``spend``: the state is already a copy and may be modified.
    """
    explainer = Explainer(state if spend else copy_state(state))
    for job_id in job_ids:
        yield job_id, explainer.reasons(job_id)


class Explainer:
    """Explains the pending jobs of one copy of the state, which it modifies."""

    def __init__(self, copy: SchedulerState) -> None:
        cycle(copy, copy.now_us)
        self._after = copy
        self._tried = _RecordingSession(copy)

    def reasons(self, job_id: str) -> list[Reason]:
        """All reasons why the job does not start now. Empty: the cycle starts it, or it is not pending."""
        if job_id not in self._after.queue:
            return []
        return _reasons(self._after, self._after.queue[job_id], self._tried)


def _reasons(after: SchedulerState, waiting: PendingJob, tried: _RecordingSession) -> list[Reason]:
    until_us = after_us(after.now_us, waiting.stay_us)
    short = shortages(after, waiting.job, until_us)
    reasons = [
        *_over_limits(after, waiting.job),
        *_behind_limit_head(after, waiting),
        *_overstayed(after, waiting),
        *short,
    ]
    if not short:
        reasons += _reserved(after, waiting, until_us)
    return reasons + _behind(after, waiting.job, tried)


def position(state: SchedulerState, job_id: str) -> int:
    """Position of a pending job in the queue; 1 is the head."""
    _check_pending(state, job_id)
    return state.queue.position(state.queue[job_id]) + 1


def _check_pending(state: SchedulerState, job_id: str) -> None:
    if job_id in state.queue:
        return
    if job_id in state.runs:
        passed = show_us(state.now_us - state.runs[job_id].started_us)
        raise Invalid("job", f"{job_id} is not pending: it has been running for {passed}")
    raise Invalid("job", f"there is no pending job {job_id!r}")


# -- limits --------------------------------------------------------------------------------------------------------


def _over_limits(state: SchedulerState, job: Job) -> list[Reason]:
    """All limits that the job exceeds, not only the first."""
    least, tenant, lane = job.gang.min_gpus, state.accounts.tenant(job.tenant), state.lane(job)
    cards = len(state.space.fixed.card_ids)
    lane_limit = int(lane.limit_ratio * cards) if lane.limit_ratio < 1 else None
    reasons = []
    for code, name, held, limit in (
        (ReasonCode.TENANT_LIMIT, f"tenant {tenant.name}", state.accounts.of(job.tenant).gpus, tenant.limit_gpus),
        (ReasonCode.LANE_LIMIT, f"lane {lane.name}", state.accounts.lane_gpus.get(lane.name, 0), lane_limit),
    ):
        if limit is not None and held + least > limit:
            reasons.append(Reason(
                code, f"{name} holds {held} of at most {show_count(limit, 'GPU')}; the job needs {least}",
                f"wait until {least + held - limit} are free, or ask for a higher limit" if least <= limit
                else "the request exceeds the limit itself: request less",
                {"held": held, "needed": least, "limit": limit},
            ))  # fmt: skip
    return reasons


def _behind_limit_head(state: SchedulerState, waiting: PendingJob) -> list[Reason]:
    """The job before it that waits for a limit of the same tenant or lane, and that it could delay."""
    head = limit_head_of(state, waiting)
    if head is None:
        return []
    first = head.waiting.job
    return [Reason(
        ReasonCode.BEHIND,
        f"{first.id} is ahead and waits for {show_count(first.gang.min_gpus, 'GPU')} under a limit that both share",
        "wait until it starts, or ask for a higher limit; a job that is expected to end before may start earlier",
        {"needed": first.gang.min_gpus}, (first.id,),
    )]  # fmt: skip


# -- reservations --------------------------------------------------------------------------------------------------


def _reserved(state: SchedulerState, waiting: PendingJob, until_us: int) -> list[Reason]:
    """It fits, but would delay others: a minimal set of reservations without which it could start."""
    job_id = waiting.job.id
    in_way = [
        p.job.id for p in state.timeline.reservations.values()
        if p.job.id != job_id
        and p.overlaps(state.now_us, until_us, is_behind=state.queue[p.job.id].rank < waiting.rank)
    ]  # fmt: skip
    if not in_way or _starts_without(state, job_id, ()):
        return []
    if not _starts_without(state, job_id, in_way):
        return []
    who = list(in_way)
    for name in in_way:
        fewer = [other for other in who if other != name]
        if _starts_without(state, job_id, fewer):
            who = fewer
    return [_reservation(state, waiting, who)]


def _starts_without(state: SchedulerState, job_id: str, dropped: Collection[str]) -> bool:
    """Whether the gang could start now without these reservations. Ignores limits, which are separate reasons."""
    trial = copy_state(state)
    for name in dropped:
        trial.timeline.reservations.pop(name)
    trial.capacity_unchanged = False
    trial.has_limits = False
    waiting = trial.queue[job_id]
    waiting.blocked = False
    return CycleSession(trial).start(waiting.job)


def _reservation(state: SchedulerState, waiting: PendingJob, who: list[str]) -> Reason:
    reservations = sorted((state.timeline.reservations[name] for name in who), key=lambda p: p.start_us)
    until_us = min(min(p.start_us, p.open_until_us) for p in reservations)
    ahead_us = max(0, until_us - state.now_us) if is_foreseeable(until_us, state.now_us) else 0
    runs_us = waiting.stay_us
    told = listed(f"{p.job.id} ({_start_of(state, p)})" for p in reservations)
    long = "its run time is unknown" if runs_us >= NEVER_US else f"it may run {show_us(runs_us)}"
    return Reason(
        ReasonCode.RESERVED, f"would delay {told}: {long}",
        f"a run of at most {show_us(ahead_us)} can be backfilled" if ahead_us else "wait",
        {"ahead_us": ahead_us, "runs_us": runs_us}, tuple(p.job.id for p in reservations),
    )  # fmt: skip


def _start_of(state: SchedulerState, reservation: Reservation) -> str:
    if not is_foreseeable(reservation.start_us, state.now_us):
        return f"its start is not known: {_why_unknown(state, reservation)}"
    start = f"reserved to start in {show_us(max(0, reservation.start_us - state.now_us))}"
    return f"late; {start}" if state.committed_us.get(reservation.job.id, NEVER_US) < state.now_us else start


def _why_unknown(state: SchedulerState, reservation: Reservation) -> str:
    if reservation.job.id in state.startless_us:
        return "what it needs is out of service"
    if reservation.start_us >= NEVER_US:
        return "it waits for jobs whose end is not known"
    return "more than a year away"


def _overstayed(state: SchedulerState, waiting: PendingJob) -> list[Reason]:
    """Guests that have outlived the time for which they were admitted, on the cards that are kept or planned for it."""
    pin = state.pins.get(waiting.job.id)
    late = state.runs.overstayed(state.now_us)
    if pin is not None:
        over = [run for run in late if run.job.id in pin.holders]
    else:
        over = [run for run in guests(state, waiting, late) if _holds_planned_cards(state, waiting, run)]
    if not over:
        return []
    told = listed(
        f"{run.job.id} of {run.job.user or 'unknown'} (tenant {run.job.tenant}) was backfilled for "
        f"{show_us(run.admitted_until_us - run.started_us)} and has run for {show_us(state.now_us - run.started_us)}"
        for run in over
    )
    longest_us = max(state.now_us - run.admitted_until_us for run in over)
    return [Reason(
        ReasonCode.OVERSTAYED, f"waits for {show_count(len(over), 'job')} behind it: {told}",
        "wait" if pin is None else "no further job is backfilled on the cards it needs; it starts when they end",
        {"overstayed": len(over), "overrun_us": longest_us}, tuple(run.job.id for run in over),
    )]  # fmt: skip


def _holds_planned_cards(state: SchedulerState, waiting: PendingJob, run: Run) -> bool:
    """Whether the run holds cards of the job's reservation. One that only counts cards can mean any."""
    reservation = state.timeline.reservations.get(waiting.job.id)
    if reservation is None:
        return False
    planned = reservation.placement
    return planned is None or not set(planned.all_cards()).isdisjoint(run.placement.all_cards())


# -- the order -----------------------------------------------------------------------------------------------------


def _behind(state: SchedulerState, job: Job, tried: _RecordingSession) -> list[Reason]:
    """The plan policy did not try this job, because jobs ahead of it block it."""
    tried.walk()
    if job.id in tried.who or state.queue[job.id].blocked:
        return []
    place = position(state, job.id)
    ahead = tried.last or state.queue.at(0).job.id
    return [Reason(
        ReasonCode.BEHIND, f"position {place} in the queue, behind {ahead}; the plan policy does not backfill past it",
        "wait, or use a plan policy with backfill",
        {"position": place}, (ahead,),
    )]  # fmt: skip


class _RecordingSession:
    """A plan session that starts nothing. It records which jobs the plan policy tries to start."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self.who: set[str] = set()
        self.last = ""
        self._has_walked = False

    def walk(self) -> None:
        """Run the plan policy once; the result would not change."""
        if not self._has_walked:
            self._has_walked = True
            self._state.policies.plan.walk(self)

    def in_order(self) -> Iterator[Job]:
        yield from [waiting.job for waiting in self._state.queue if not waiting.blocked]

    def start(self, job: Job) -> bool:
        self.who.add(job.id)
        self.last = job.id
        return False

    def start_unconditionally(self, job: Job) -> bool:
        return False

    def reserve(self, job: Job) -> bool:
        return job.id in self._state.timeline.reservations

    def candidates(self, by: str, aged_s: float = inf) -> Iterator[Job]:
        yield from [job for job in self.in_order() if job.id not in self._state.timeline.reservations]
