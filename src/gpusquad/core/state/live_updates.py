"""Changes to a live scheduler: adopted gangs, updated jobs, new policies, a changed cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.ports import EndPredicted, GangAdopted, PriorAttempts
from gpusquad.core.state.policies import Policies
from gpusquad.core.state.queue import PendingJob
from gpusquad.core.state.runs import NEVER_US, Run, after_us, predicted_end_us
from gpusquad.core.state.state import SchedulerState, cards_of
from gpusquad.model.cluster import Cluster
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement, ShapePlacement
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction

SLACK_US = 5 * US_PER_S
SLACK_RATIO = 0.05
"""A predicted end that moves by less than both is ignored, to avoid replanning. The ratio is of the remaining time."""


def adopt(state: SchedulerState, event: GangAdopted) -> Run:
    """Adopt a gang that already runs, as if this scheduler had started it."""
    job, past = event.job, event.past
    if past.sequence is None:
        state.sequence += 1
    else:
        state.sequence = max(state.sequence, past.sequence)
    state.space.take(job, event.placement)
    end_us = predicted_end_us(job, event.prediction, event.placement, event.started_us)
    run = Run(job, event.placement, event.prediction, event.started_us, end_us,
              state.sequence if past.sequence is None else past.sequence, state.lane(job), past.attempt, past.kept_us,
              past.served_gpu_us, past.preemptions,
              admitted_until_us=after_us(event.started_us, _admitted_us(job, event.prediction)))  # fmt: skip
    if state.careful:
        state.add_slack(run)
    state.runs.add(run)
    state.accounts.change(job, cards_of(run.placement), run.lane.name, state.now_us, +1)
    state.capacity_changed()
    return run


def update(state: SchedulerState, job: Job, prediction: RunTimePrediction | None) -> None:
    """Replace a job by a version with other attributes and the same request."""
    if job.id in state.queue:
        _update_waiting(state, job, prediction)
    elif job.id in state.runs:
        _update_run(state, job, prediction)


def update_predicted_end(state: SchedulerState, event: EndPredicted) -> None:
    """Change the predicted end of a run. Later: reservations are rebuilt. Sooner: they may advance."""
    run = state.runs.by_id.get(event.job_id)
    if run is None or run.leaving:
        return
    last_us = _last_end_us(run, state.now_us)
    end_us = min(max(event.end_us, state.now_us), last_us)
    behind_us = run.high_end_us - run.end_us if event.high_end_us is None else event.high_end_us - event.end_us
    high_end_us = min(end_us + max(0, behind_us), last_us)
    moves = _matters(run.end_us, end_us, state.now_us)
    if not moves and not _matters(run.high_end_us, high_end_us, state.now_us):
        return
    if not moves:
        end_us = run.end_us
    if not run.job.is_elastic:  # whose prediction is for its full number of tasks
        run.prediction = _observed_prediction(run, end_us, max(end_us, high_end_us))
    if moves:
        state.move_end(event.job_id, end_us, event.why)


def with_policies(state: SchedulerState, policies: Policies, why: str = "the policies changed") -> SchedulerState:
    """The same state under other policies, without reservations: these belong to an order and a plan. A promised start
    stays a commitment unless the new order lets another pending job go ahead of its job."""
    other = _like(state, state.space.fixed.cluster, policies, why)
    other.space.allowed = state.space.allowed
    _move_in(state, other, lambda placement: placement)
    other.committed_us = {
        job_id: state.committed_us[job_id] for job_id in _not_passed(state, other) if job_id in state.committed_us
    }
    return other


def _not_passed(state: SchedulerState, other: SchedulerState) -> Iterator[str]:
    """Pending jobs that have no job ahead of them that was behind them before."""
    before = {waiting.job.id: position for position, waiting in enumerate(state.queue)}
    last = -1
    for waiting in other.queue:
        position = before[waiting.job.id]
        if position > last:
            yield waiting.job.id
        last = max(last, position)


def with_cluster(state: SchedulerState, cluster: Cluster) -> SchedulerState:
    """The same queue and policies on other nodes. Runs on removed nodes or cards are dropped."""
    other = _like(state, cluster, state.policies, "the nodes changed")
    _move_in(state, other, _translation(state.space.fixed, other.space.fixed))
    other.committed_us = {job_id: at_us for job_id, at_us in state.committed_us.items() if job_id in other.queue}
    return other


def _like(state: SchedulerState, cluster: Cluster, policies: Policies, why: str) -> SchedulerState:
    other = SchedulerState(cluster, policies, tuple(state.timeline.windows), state.rate)
    other.now_us, other.sequence, other.resizes = state.now_us, state.sequence, state.resizes
    other.suspends, other.decided_us = state.suspends, state.decided_us
    other.first_reserved_us, other.delayed_starts, other.later_ends = (
        state.first_reserved_us,
        state.delayed_starts,
        state.later_ends,
    )
    other.places_us, other.startless_us = dict(state.places_us), dict(state.startless_us)
    other.replan_cause = why
    return other


def _move_in(state: SchedulerState, other: SchedulerState, translate: Callable[[Placement], Placement | None]) -> None:
    """Copy all runs, pending jobs and node states."""
    _copy_health(state, other)
    for run in sorted(state.runs.by_id.values(), key=lambda run: run.sequence):
        placement = translate(run.placement)
        if placement is not None:
            shrinks_to = None if run.shrinks_to is None else translate(run.shrinks_to)
            _carry_over(other, replace(run, placement=placement, shrinks_to=shrinks_to))
    for name, held in state.accounts.held.items():
        now = other.accounts.of(name)
        now.decayed_gpu_us, now.at_us = held.decayed_gpu_us, held.at_us
    for waiting in state.queue:
        _enqueue_again(other, waiting, waiting.job, waiting.prediction)
    other.claims = dict(state.claims)


def _translation(before: ClusterArrays, after: ClusterArrays) -> Callable[[Placement], Placement | None]:
    """Maps placements from one cluster to another, by names."""
    nodes = np.array([after.node_index.get(name, -1) for name in before.node_ids], dtype=np.int64)
    cards = np.array([after.card_index.get(name, -1) for name in before.card_ids], dtype=np.int64)

    def translate(placement: Placement) -> Placement | None:
        parts = tuple(
            ShapePlacement(part.request_index, nodes[part.nodes], cards[part.cards]) for part in placement.parts
        )
        if any((part.nodes < 0).any() or (part.cards < 0).any() for part in parts):
            return None
        return Placement(parts, placement.note)

    return translate


def _update_waiting(state: SchedulerState, job: Job, prediction: RunTimePrediction | None) -> None:
    place_us = state.places_us.get(job.id)
    waiting = state.dequeue(job.id)
    if place_us is not None and (job.tenant, job.priority) == (waiting.job.tenant, waiting.job.priority):
        state.places_us[job.id] = place_us
    state.rebuild_reservations(f"{job.id} was changed")
    state.timeline.reservations.pop(job.id, None)
    _enqueue_again(state, waiting, job, prediction or waiting.prediction)


def _enqueue_again(state: SchedulerState, waiting: PendingJob, job: Job, prediction: RunTimePrediction) -> None:
    state.enqueue(job, prediction, attempt=waiting.attempt, kept_us=waiting.kept_us,
                  served_gpu_us=waiting.served_gpu_us, preemptions=waiting.preemptions,
                  sequence=waiting.sequence)  # fmt: skip


def _update_run(state: SchedulerState, job: Job, prediction: RunTimePrediction | None) -> None:
    old = state.runs.remove(job.id)
    state.space.release(old.job, old.placement)
    state.accounts.change(old.job, cards_of(old.placement), old.lane.name, state.now_us, -1)
    end_us = old.end_us
    if prediction is not None:
        end_us = predicted_end_us(job, prediction, old.placement, old.started_us)
    run = replace(old, job=job, prediction=prediction or old.prediction, end_us=end_us)
    _carry_over(state, run)
    state.rebuild_reservations(f"{job.id} was changed")


def _admitted_us(job: Job, prediction: RunTimePrediction) -> int:
    """As ``PendingJob.admitted_us``: an elastic gang may have started with its minimum number of tasks."""
    least = sum(low for low, _ in job.bounds) if job.is_elastic else job.tasks
    return prediction.last_us * job.tasks // least


def _last_end_us(run: Run, now_us: int) -> int:
    """No job runs past its limit, except for the time it takes to stop it."""
    if run.job.limit_us is None:
        return NEVER_US
    return max(now_us, run.started_us + run.job.limit_us)


def _matters(before_us: int, then_us: int, now_us: int) -> bool:
    return abs(then_us - before_us) > max(SLACK_US, SLACK_RATIO * (max(before_us, then_us) - now_us))


def _observed_prediction(run: Run, end_us: int, high_end_us: int) -> RunTimePrediction:
    mid_us, high_us = max(1, end_us - run.started_us), max(1, high_end_us - run.started_us)
    return replace(run.prediction, mid_us=mid_us, high_us=high_us, source="progress", promise_us=None,
                   mean_us=None, later_us=(high_us,) if high_us > mid_us else ())  # fmt: skip


def _carry_over(state: SchedulerState, run: Run) -> None:
    run = replace(run, lane=state.lane(run.job), end_us=run.end_us - run.slack_us, slack_us=0)
    if state.careful:
        state.add_slack(run)
    state.space.take(run.job, run.placement)
    state.runs.add(run)
    state.accounts.change(run.job, cards_of(run.placement), run.lane.name, state.now_us, +1)


def _copy_health(state: SchedulerState, other: SchedulerState) -> None:
    before, after = state.space, other.space
    for card in np.flatnonzero(before.card_broken):
        if (index := after.fixed.card_index.get(before.fixed.card_ids[card])) is not None:
            after.set_card_ok(index, False)
    other.outages = {card: outage for card, outage in state.outages.items() if card in after.fixed.card_index}
    for node in np.flatnonzero(~before.node_up):
        if (index := after.fixed.node_index.get(before.fixed.node_ids[node])) is not None:
            after.set_node_up(index, False)
    for node, foreign in before.foreign.items():
        if (index := after.fixed.node_index.get(before.fixed.node_ids[node])) is not None:
            after.set_foreign(index, foreign)


def past_of(run: Run | PendingJob) -> PriorAttempts:
    return PriorAttempts(run.attempt, run.kept_us, run.served_gpu_us, run.preemptions, run.sequence)
