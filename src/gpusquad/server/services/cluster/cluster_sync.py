"""Follows a shared cluster: gangs created by other clients become jobs, and nodes come and go.

Observations of the engine are handled inside a pass. The cluster is the authority on what exists and where it runs. The
store keeps it, with predictions and events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import structlog

from gpusquad.core.capacity.cluster_arrays import ClusterArrays
from gpusquad.core.explain.feasibility import refusal
from gpusquad.core.observed import ClusterObserved, GangFound, GangsResynced, GangWithdrawn, Sighting, TaskLocation
from gpusquad.core.ports import (
    ClusterChanged,
    GangAdopted,
    GangEnded,
    JobCancelled,
    JobSubmitted,
    JobUpdated,
    NodeSetsChanged,
)
from gpusquad.core.transitions import JobState
from gpusquad.model.card_faults import FaultClass
from gpusquad.model.codec import job_to_dict
from gpusquad.model.job import Job
from gpusquad.model.placement import Placement, ShapePlacement
from gpusquad.model.priority import is_above_high
from gpusquad.model.reasons import Reason
from gpusquad.server.services.cluster.nodes import NodeService
from gpusquad.server.services.cluster.pod_rights import PodRights
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.cluster_submissions import ClusterSubmissions, meant
from gpusquad.server.services.jobs.holds import IMPOSSIBLE, Holds
from gpusquad.server.services.jobs.outcomes import ON_CARDS, Outcomes
from gpusquad.server.services.jobs.rights import RESTRICTED
from gpusquad.server.services.runtime.records import (
    forecast_of,
    forecast_record,
    past_of,
    placement_record,
    run_forecast_row,
)
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.server.services.sharing.sharing_updates import SharingUpdates
from gpusquad.spec.convert import placed_roles
from gpusquad.store import attempts, jobs
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.scheduler")


@dataclass
class ClusterSync:
    """Handles observations of the engine. All but ``hear`` is called inside a pass."""

    context: SchedulerContext
    outcomes: Outcomes
    holds: Holds
    node_service: NodeService
    sharing_updates: SharingUpdates
    next_sequence: Callable[[], int]
    pod_rights: PodRights
    submissions: ClusterSubmissions | None = None

    def __post_init__(self) -> None:
        self._handlers: dict[type, Callable] = {
            GangFound: self._found,
            GangWithdrawn: self._withdrawn,
            GangsResynced: self._resynced,
            ClusterObserved: self._observed,
        }
        self._impossible: set[str] = set()
        """Checked again when nodes change."""
        self._over_before: set[str] = set()
        self._broken: Mapping[str, tuple[str, FaultClass]] = {}

    def job_ended(self, unit: UnitOfWork, row: JobRow) -> None:
        """The engine may still have the gang, for example after a time limit or a refusal."""
        self._impossible.discard(row.id)
        self.pod_rights.forget(row.id)
        engine = self.context.cluster_engine
        if engine is not None:
            unit.after_commit.append(lambda: engine.finished(row.id))

    def hear(self, sighting: Sighting) -> None:
        """Safe for any thread."""
        self.context.loop.post(lambda: self._handlers[type(sighting)](sighting))

    # -- gangs -----------------------------------------------------------------------------------------------------

    def _found(self, found: GangFound) -> None:
        row = self.context.rows.get(found.job.id)
        if row is None:
            row = self._accept(found)
        elif not found.places and row.state in (JobState.PENDING, JobState.HELD):
            self._change(row, found.job)
        if row is not None and found.places and JobState(row.state) in (JobState.PENDING, JobState.HELD):
            self._adopt(row, found)

    def _accept(self, found: GangFound) -> JobRow | None:
        job, unit, context = found.job, self.context.unit, self.context
        if self._is_over(job.id):
            engine = context.cluster_engine
            assert engine is not None
            unit.after_commit.append(lambda: engine.begin_incarnation(job.id))
            return None
        expected = self.submissions.take(job.id) if self.submissions is not None else None
        if expected is not None:
            job, restricted = meant(expected.job, job), ""
        else:
            job, restricted = self.pod_rights.restrict(job)
        prediction = context.forecast(job)
        row = JobRow(
            id=job.id, name=job.name, tenant=job.tenant, user=job.user, queue=job.queue, state=str(JobState.PENDING),
            priority=job.priority, lane=job.lane, submitted_us=job.submitted_us, sequence=self.next_sequence(),
            gpus=job.gpus, gpu_milli=job.gpu_milli, core=job_to_dict(job),
            forecast=forecast_record(prediction.forecast, prediction.run),
        )  # fmt: skip
        if expected is not None:
            row = expected.row_as(row)
        reason = None if found.places or row.after else refusal(context.state, job)
        if reason is not None:
            row = replace(row, state=str(JobState.HELD), cause=str(reason), stop=_held_for(reason))
            self._impossible.add(job.id)
        context.jobs[job.id] = job
        unit.add(row, str(row.state), row.cause, actor=job.user)
        made = run_forecast_row(job, 0, unit.now_us, prediction.run)
        unit.predictions.append(made)
        if expected is not None:
            expected.record_notes(unit)
        if restricted:
            unit.record(row.id, "warned", restricted, data=RESTRICTED)
        if row.after:
            self.holds.watch(row)
            self.holds.settle(unit, dict(expected.states) if expected is not None else {}, row.id)
        if row.state == JobState.PENDING and not found.places:
            context.driver.apply(unit.now_us, JobSubmitted(job, prediction.forecast, past_of(row)))
        return context.rows.get(job.id)

    def _change(self, row: JobRow, job: Job) -> None:
        """Its pods changed, or other pods changed the nodes it may use."""
        context, unit = self.context, self.context.unit
        before = context.job(row.id)
        if row.spec:
            job = meant(before, job)  # submitted here: the store knows more than its pods
        else:
            job, restricted = self.pod_rights.restrict(job, before)
            if restricted:
                unit.record(row.id, "warned", restricted, data=RESTRICTED)
        # A restarted engine may not have seen its first pods.
        job = job.submitted_at(before.submitted_us).eligible_as(before)
        if before == job:
            return
        context.jobs[row.id] = job
        unit.change(row.id, core=job_to_dict(job), priority=job.priority, queue=job.queue, lane=job.lane)
        if row.id in context.state.queue:
            context.driver.apply(unit.now_us, JobUpdated(job))
        elif row.id in self._impossible:
            self._recheck()

    def _is_over(self, job_id: str) -> bool:
        """Whether the job ended before the service started, or just now. The engine counts incarnations itself while it
        runs."""
        return job_id in self._over_before or self.holds.just_ended(job_id)

    def _adopt(self, row: JobRow, found: GangFound) -> None:
        """The gang already runs."""
        context, unit = self.context, self.context.unit
        job = context.job(row.id)
        placement = placement_at(job, found.places, context.fixed)
        if placement is None or not context.state.space.holds(job, placement):
            _log.warning("a gang runs on cards that have no room for it", job=row.id)
            self._leave_to_others(row, job)
            return
        if row.id in context.state.queue:
            context.driver.apply(unit.now_us, JobCancelled(row.id))
        self._impossible.discard(row.id)
        started_us = min(unit.now_us, found.started_us or unit.now_us)
        context.driver.apply(unit.now_us, GangAdopted(job, forecast_of(row), placement, started_us, past_of(row)))
        if row.state == JobState.HELD:
            unit.transition(row.id, JobState.PENDING, "pending")
        record = placement_record(job, placement, context.fixed)
        cards = [card for task in record["tasks"] for card in task["cards"]]
        unit.transition(row.id, JobState.STARTING, "starting", "found on its cards", data={"cards": cards},
                  started_us=started_us, placement=record, stop=None)  # fmt: skip
        row = unit.transition(row.id, JobState.RUNNING, "running")
        opened = attempts.AttemptRow(
            row.id, row.attempt, row.tenant, row.user, started_us, None, job.gpu_milli, cards,
            urgent_from_us=started_us if is_above_high(job.priority) else None,
        )  # fmt: skip
        unit.opened_attempts.append(opened)
        context.predictor.begin(job, started_us)
        engine, attempt = context.cluster_engine, row.attempt
        if engine is not None:  # its reports must name the same attempt
            unit.after_commit.append(lambda: engine.resume(job, attempt, found.places, True))
            unit.after_commit.append(lambda: self.sharing_updates.update(job.id))

    def _leave_to_others(self, row: JobRow, job: Job) -> None:
        """Its cards are in use, so no other gang is placed there, and this gang is placed nowhere else."""
        engine, attempt = self.context.cluster_engine, row.attempt
        if row.id in self.context.state.queue:
            self.context.driver.apply(self.context.unit.now_us, JobCancelled(row.id))
        if engine is not None:
            self.context.unit.after_commit.append(lambda: engine.resume(job, attempt, (), True))

    def _withdrawn(self, gone: GangWithdrawn) -> None:
        row = self.context.rows.get(gone.job_id)
        if row is None:
            return
        state = JobState(row.state)
        if state in ON_CARDS:
            return  # the end of its attempt is reported separately and first
        if row.id in self.context.state.queue:
            self.context.driver.apply(self.context.unit.now_us, JobCancelled(row.id))
        self.outcomes.finish(self.context.unit, row.id, _final(state, gone.how), gone.cause)

    def _resynced(self, resynced: GangsResynced) -> None:
        """End jobs whose gangs disappeared while the service was down."""
        self._over_before = set()
        for row in [row for row in self.context.rows.values() if row.id not in resynced.job_ids]:
            if row.id in self.context.state.runs:
                self.context.driver.apply(self.context.unit.now_us, GangEnded(row.id, "failed"))
            elif row.id in self.context.state.queue:
                self.context.driver.apply(self.context.unit.now_us, JobCancelled(row.id))
            self._end_missing(self.context.unit, row)

    def _end_missing(self, unit: UnitOfWork, row: JobRow) -> None:
        cause = "its pods disappeared while the service was down"
        if JobState(row.state) in ON_CARDS:
            unit.writes.append(lambda c: attempts.close(c, row.id, row.attempt, unit.now_us, "lost", cause))
            if row.state == JobState.PREEMPTING:
                unit.transition(row.id, JobState.PENDING, "requeued", cause)
            elif row.state != JobState.STOPPING:
                if row.state != JobState.LOST:
                    unit.transition(row.id, JobState.LOST, "lost", cause)
                unit.transition(row.id, JobState.PENDING, "requeued", cause)
        self.outcomes.finish(unit, row.id, JobState.CANCELLED, cause)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _observed(self, seen: ClusterObserved) -> None:
        context, now_us = self.context, self.context.unit.now_us
        if seen.cluster is not None:
            context.driver.apply(now_us, ClusterChanged(seen.cluster))
        if seen.allowed is not None:
            context.driver.apply(now_us, NodeSetsChanged(seen.allowed))
        for others in seen.others:
            if others.node_id in context.fixed.node_index:
                context.driver.apply(now_us, others)
        if seen.broken is not None:
            self._faults(seen.broken)
        if seen.cluster is not None or seen.allowed is not None:
            self._recheck()

    def _faults(self, broken: Mapping[str, tuple[str, FaultClass]]) -> None:
        for card, fault in sorted(broken.items()):
            if self._broken.get(card) != fault:
                self.node_service.fault_now(card, *fault)
        for card in sorted(self._broken.keys() - broken.keys()):
            self.node_service.recovered(card)
        self._broken = broken

    def _recheck(self) -> None:
        """Queue held jobs that became possible. Pending jobs that became impossible stay pending, because nodes often
        return."""
        context, unit = self.context, self.context.unit
        for job_id in sorted(self._impossible):
            row, job = context.rows[job_id], context.job(job_id)
            reason = refusal(context.state, job)
            if reason is None:
                self._impossible.discard(job_id)
                unit.transition(job_id, JobState.PENDING, "pending", "the cluster can run it now", stop=None)
                context.driver.apply(unit.now_us, JobSubmitted(job, forecast_of(row), past_of(row)))
            elif str(reason) != row.cause:
                unit.change(job_id, cause=str(reason), stop=_held_for(reason))

    def load(self) -> None:
        """After a restart."""
        with self.context.database.read() as connection:
            self._over_before = jobs.ids_of_final(connection)
        self._impossible = {
            row.id for row in self.context.rows.values()
            if row.state == JobState.HELD and (row.stop or {}).get("how") == IMPOSSIBLE
        }  # fmt: skip


def placement_at(job: Job, places: Sequence[TaskLocation], fixed: ClusterArrays) -> Placement | None:
    """Tasks by rank as a placement. None if a node or card does not exist."""
    rows: list[list[tuple[int, list[int]]]] = [[] for _ in job.groups]
    by_rank = iter(places)
    try:
        for _, group, count in placed_roles(job):
            for place in itertools.islice(by_rank, count):
                cards = [fixed.card_index[card] for card in place.cards]
                rows[group].append((fixed.node_index[place.node], cards))
        parts = [_part(group, tasks, job.groups[group][0].cards) for group, tasks in enumerate(rows)]
    except (KeyError, ValueError):
        return None
    return Placement(tuple(parts))


def _part(group: int, tasks: Sequence[tuple[int, list[int]]], cards: int) -> ShapePlacement:
    nodes = np.array([node for node, _ in tasks], dtype=np.int64)
    return ShapePlacement(
        group, nodes, np.array([held for _, held in tasks], dtype=np.int64).reshape(len(tasks), cards)
    )


def _held_for(reason: Reason) -> dict[str, object]:
    return {"how": IMPOSSIBLE, "by": "the scheduler", "code": str(reason.code)}


def _final(state: JobState, how: str) -> JobState:
    return JobState(how) if state is JobState.PENDING and how != "succeeded" else JobState.CANCELLED
