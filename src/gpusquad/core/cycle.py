"""One decision cycle: snapshot, admit, order, plan, place, decide."""

from __future__ import annotations

from collections.abc import Iterator

from gpusquad.core.planning.batch import start_batch
from gpusquad.core.planning.caution import update_caution
from gpusquad.core.planning.elastic import resize
from gpusquad.core.planning.limit_heads import block_over_limit
from gpusquad.core.planning.openings import update_commitments
from gpusquad.core.planning.preemption import preempt
from gpusquad.core.planning.session import CycleSession
from gpusquad.core.planning.starvation import promote_overdue
from gpusquad.core.state.runs import Run
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.decision import Decision, Stop
from gpusquad.model.units import US_PER_S, show_us


def cycle(state: SchedulerState, now_us: int) -> list[Decision]:
    """Decide what to do now. The state already reflects the returned decisions."""
    state.now_us = now_us
    open_windows(state)
    extend_overdue(state)
    drop_missed(state)
    update_ranks(state)
    update_caution(state)
    update_commitments(state, state.decided_us)
    state.decided_us = now_us
    block_over_limit(state)
    session = CycleSession(state)
    if state.claims:
        session.start_claims()
    start_batch(session)
    state.policies.plan.walk(session)
    session.finish()
    session.decisions.extend(resize(state))
    session.decisions.extend(preempt(state))
    session.decisions.extend(stop_over_limit(state))
    return session.decisions


def open_windows(state: SchedulerState) -> None:
    """Remove ended maintenance windows. Their nodes are free, so all jobs are considered again."""
    windows = state.timeline.windows
    over = [w for w in windows if w.end_us is not None and w.end_us <= state.now_us]
    if over:
        state.timeline.windows = [w for w in windows if w not in over]
        state.reservations_may_advance = True
        state.capacity_changed()


def update_ranks(state: SchedulerState) -> None:
    """Rank the queue again, as often as the order policy needs it."""
    match state.policies.order.varies:
        case "never":
            return
        case "when_due":
            promote_overdue(state)
        case _:
            state.resort()


def extend_overdue(state: SchedulerState) -> None:
    """Extend runs past their predicted end: to the next quantile; after the last one, by as long as the run is late;
    never beyond the time limit. Reservations are rebuilt."""
    for run in state.runs.overdue(state.now_us):
        longer_us = _next_belief_us(run, state.now_us - run.started_us)
        state.move_end(run.job.id, run.started_us + longer_us, f"{run.job.id} runs longer than predicted")


def drop_missed(state: SchedulerState) -> None:
    """Rebuild the reservations if one has a start in the past, because no cycle ran in time. It would keep cards from
    jobs ahead of it, which would then reserve what it needs to start late: both would wait indefinitely, on idle
    cards."""
    reservations = state.timeline.reservations.items()
    if any(
        reservation.start_us < state.now_us and not reservation.is_pinned and job_id not in state.claims
        for job_id, reservation in reservations
    ):
        state.rebuild_reservations("a reserved start was missed")


def _next_belief_us(run: Run, passed_us: int) -> int:
    prediction = run.prediction
    beliefs_us = prediction.later_us or (prediction.high_us,)
    later_us = next((u for u in beliefs_us if u > passed_us), None)
    if later_us is None:
        # Not twice its whole time: all jobs could be backfilled before a reservation that far in the future.
        last_us = min(beliefs_us[-1], passed_us)
        later_us = passed_us + max(passed_us - last_us, last_us // 8, US_PER_S)
    limit_us = run.job.limit_us
    return later_us if limit_us is None or passed_us >= limit_us else min(later_us, limit_us)


def stop_over_limit(state: SchedulerState) -> Iterator[Decision]:
    """Stop runs that reached their time limit. An estimate never stops a job."""
    for at_us, _, job_id in state.runs.limits:
        if at_us > state.now_us:
            break
        run = state.runs[job_id]
        if not run.leaving:
            run.leaving = True
            yield Stop(job_id, f"ran for {show_us(state.now_us - run.started_us)}, its time limit")
