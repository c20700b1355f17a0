"""Commitments: a reserved job is not delayed again and again by jobs behind it.

A *guest* of a pending job is a run behind it in the order that started while it waited. It was admitted for a time, on
the word of its prediction. Two rules bound what guests can cost the job:

- Before the reserved start that was first promised, a guest must be predicted to end by then. After it, a guest may
  stay for at most an eighth (``LATE_RATIO``) of the time by which the job is late already. Cards that are spare when
  the reservation starts, by the predicted ends of other runs, are not limited so.
- When the job could start if its guests were gone, and one of them has outlived its time or the promised start has
  passed, its cards are *pinned*: the idle ones and those of the guests that end soonest are kept for it, and no job
  behind it starts on them.

Where the planned start cannot be relied on, the reservation names the idle cards and those freed next instead (see
``gathering``). So a job starts later than promised by at most the overrun of one guest, however many jobs come after
it. The plan policy's ``binds`` says when the rules apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, Run, after_us
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.state.timeline import UNKNOWN_SPARE, Pin, Reservation
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement
from gpusquad.model.priority import precedence

LATE_RATIO = 8
"""A guest of a job that is late may stay for the lateness divided by this."""
MOVE_RATIO = 2
"""A pin moves only to cards that are predicted to be free in less than half of the time."""


def is_doubtful(state: SchedulerState, waiting: PendingJob, planned: Reservation | None) -> bool:
    """Whether the planned start cannot be relied on: the one that was promised first has passed, or a run that has
    outlived its time would have to end before."""
    if state.policies.plan.binds != "always":
        return False
    if state.committed_us.get(waiting.job.id, NEVER_US) < state.now_us:
        return True
    if planned is None:
        return False
    return any(run.end_us <= planned.start_us for run in state.runs.overstayed(state.now_us))


def is_due(state: SchedulerState, waiting: PendingJob) -> bool:
    """Whether guests may no longer delay the job: it is late, a guest has outlived its time, or guests can be stopped
    without loss."""
    binds = state.policies.plan.binds
    if binds == "never":
        return False
    is_late = state.committed_us.get(waiting.job.id, NEVER_US) < state.now_us
    if waiting.job.id in state.pins or (is_late and binds == "always"):
        return True
    suspects = list(state.runs.by_id.values()) if state.suspends else state.runs.overstayed(state.now_us)
    return next(guests(state, waiting, suspects), None) is not None


def find_pin(
    state: SchedulerState, waiting: PendingJob, ahead: Sequence[Reservation], planned: Reservation | None
) -> Pin | None:
    """The cards to keep for a reserved job that could start but for its guests. ``ahead``: reservations of jobs before
    it in the order, whose cards it leaves alone. ``planned``: its reservation by predicted ends alone."""
    space = space_beside(state, waiting, ahead)
    current = state.pins.get(waiting.job.id)
    if current is not None and not _still_holds(state, space, waiting, current):
        current = None
    others = _planned_pin(state, space, waiting, planned)
    freed = _pin_of_guests(state, space, waiting)
    if current is None and freed is None:
        return None
    others += [freed] if freed is not None else []
    best = min(others, key=lambda pin: _wait_us(state, waiting, pin), default=None)
    if current is None:
        return best
    if best is None or _wait_us(state, waiting, best) * MOVE_RATIO >= _wait_us(state, waiting, current):
        return current
    taken = {card for one in ahead if one.placement is not None for card in one.placement.all_cards()}
    return replace(best, closed=(current.closed | frozenset(current.placement.all_cards())) - taken)


def pinned_reservation(state: SchedulerState, waiting: PendingJob, pin: Pin) -> Reservation:
    """The reservation of pinned cards. It starts when the last run that holds one of them is predicted to end, as in
    the timeline, even if that is a guest that will be stopped before."""
    ends_us = [state.runs[job_id].end_us for job_id in pin.holders if job_id in state.runs]
    start_us = min(max(state.now_us + 1, *ends_us, 0), NEVER_US)
    return Reservation(waiting.job, start_us, after_us(start_us, waiting.stay_us), pin.placement, UNKNOWN_SPARE,
                       open_until_us=0, pin=pin)  # fmt: skip


def guests(state: SchedulerState, waiting: PendingJob, runs: Sequence[Run]) -> Iterator[Run]:
    """Those of the runs that started while the job waited, although they are behind it in the order."""
    for run in runs:
        if run.started_us >= waiting.job.eligible_us and is_behind(state, waiting, run):
            yield run


def is_behind(state: SchedulerState, waiting: PendingJob, run: Run) -> bool:
    """Whether the run is behind the job in the order. One that started before the job could keep its place is compared
    by the order policy alone: it had the right to go first."""
    if kept_place_then(state, waiting, run.started_us):
        return rank_of_run(state, run) > waiting.rank
    return rank_by_policy(state, run.job, run.sequence) > rank_by_policy(state, waiting.job, waiting.sequence)


def kept_place_then(state: SchedulerState, waiting: PendingJob, at_us: int) -> bool:
    """Whether the job could keep its place at that instant. Also if its order policy lets no job keep one."""
    return state.places_us.get(waiting.job.id, 0) < at_us


def may_be_stopped(state: SchedulerState, run: Run) -> bool:
    """Whether a guest that has outlived its time may be stopped for the job with the reservation."""
    if run.leaving or run.started_us == state.now_us:
        return False
    if state.suspends:
        return True
    rule, checkpoint = state.policies.preemption, run.job.checkpoint
    if run.preemptions >= rule.most_per_job:  # two jobs could stop each other endlessly
        return False
    if rule.overstay == "never" or not (run.lane.preemptible and checkpoint.preemptible):
        return False
    return rule.overstay == "always" or checkpoint.every_us is not None


def stops_us(state: SchedulerState, run: Run) -> int:
    """Instant from which a guest that may be stopped gives way: at once where it loses nothing."""
    return state.now_us if state.suspends else run.admitted_until_us + 1


def rank_by_policy(state: SchedulerState, job: Job, sequence: int) -> tuple:
    """Rank by the keys of the order policy, as if no job kept its place."""
    return (precedence(job.priority), *state.policies.order.key(job, state), sequence)


def rank_of_run(state: SchedulerState, run: Run) -> tuple:
    """Rank that the job would have in the queue now."""
    return (precedence(run.job.priority), *state.key(run.job), run.sequence)


def space_beside(state: SchedulerState, waiting: PendingJob, ahead: Sequence[Reservation]) -> Space:
    """Capacity free now, without what is reserved for jobs ahead and nodes that are closed during the stay. Whole nodes
    are left out where CPU or memory could be short: otherwise two jobs could wait for each other."""
    space = state.space.copy()
    for reservation in ahead:
        if reservation.placement is None:
            continue
        if _needs_nodes(waiting.job) or _needs_nodes(reservation.job):
            space.hide(np.unique(reservation.placement.all_nodes()))
        else:
            for card in reservation.placement.all_cards():
                space.set_card_ok(card, False)
    if state.timeline.windows:
        closed = state.timeline.closed_nodes(state.now_us, after_us(state.now_us, waiting.stay_us))
        space.hide(np.array(closed, dtype=np.int64))
    return space


def _needs_nodes(job: Job) -> bool:
    """Whether it uses more of a node than cards."""
    return any(request.cpu_milli or request.memory_bytes or request.extras for request, _ in job.groups)


def _still_holds(state: SchedulerState, space: Space, waiting: PendingJob, pin: Pin) -> bool:
    """Whether the job can still get exactly these cards when their holders have ended."""
    free = space.copy()
    for job_id in pin.holders:
        run = state.runs.by_id.get(job_id)
        if run is not None:
            free.release(run.job, run.placement)
    return free.holds(waiting.job, pin.placement)


def _planned_pin(state: SchedulerState, space: Space, waiting: PendingJob, planned: Reservation | None) -> list[Pin]:
    """The planned cards as a pin, unless a job ahead uses some of them first."""
    if planned is None or planned.placement is None or planned.start_us >= NEVER_US:
        return []
    pin = Pin(planned.placement, holders_of(state.runs.by_id.values(), waiting.job, planned.placement))
    return [pin] if _still_holds(state, space, waiting, pin) else []


def _pin_of_guests(state: SchedulerState, space: Space, waiting: PendingJob) -> Pin | None:
    """Idle cards and those of the guests that are predicted to end first. None: guests are not what it waits for."""
    job = waiting.job
    ends_us = {run.job.id: leaves_us(state, run) for run in guests(state, waiting, list(state.runs.by_id.values()))}
    released: list[Run] = []
    for job_id in sorted(ends_us, key=lambda i: (ends_us[i], i)):
        run = state.runs[job_id]
        space.release(run.job, run.placement)
        released.append(run)
        if not space.fits(job):
            continue
        placement = state.try_place(space, job)
        if isinstance(placement, Placement):
            return Pin(placement, holders_of(released, job, placement))
    return None


def holders_of(runs: Iterable[Run], job: Job, placement: Placement) -> tuple[str, ...]:
    """The runs that use one of these cards, or CPU or memory of these nodes."""
    cards = set(placement.all_cards())
    nodes = set(placement.all_nodes()) if _needs_nodes(job) else set()
    return tuple(
        run.job.id for run in runs
        if not cards.isdisjoint(run.placement.all_cards()) or not nodes.isdisjoint(run.placement.all_nodes())
    )  # fmt: skip


def _wait_us(state: SchedulerState, waiting: PendingJob, pin: Pin) -> int:
    """Predicted time until the last holder has left."""
    runs = [state.runs[job_id] for job_id in pin.holders if job_id in state.runs]
    stopped = {run.job.id for run in guests(state, waiting, runs)}
    leaves = [leaves_us(state, run) if run.job.id in stopped else trusted_end_us(state, run) for run in runs]
    return max(1, max((at_us - state.now_us for at_us in leaves), default=1))


def leaves_us(state: SchedulerState, guest: Run) -> int:
    """When a guest has left: at its predicted end, or when it is stopped."""
    end_us = trusted_end_us(state, guest)
    return max(state.now_us + 1, min(end_us, stops_us(state, guest))) if may_be_stopped(state, guest) else end_us


def trusted_end_us(state: SchedulerState, run: Run) -> int:
    """Its predicted end. A run that has outlived its time is always predicted to end soon; it is expected to take as
    long again as it has run."""
    now_us = state.now_us
    return run.end_us if run.admitted_until_us >= now_us else max(run.end_us, now_us + (now_us - run.started_us))
