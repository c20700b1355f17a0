"""The scheduler as a service: one object, safe to call from any thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.core.hang.hang import HangRules
from gpusquad.core.job_objects import JobObjectCreator
from gpusquad.core.observed import ClusterEngine, Sighting, TaskLocation
from gpusquad.core.ports import AttemptEnded, AttemptStarted, Engine, GangStopping, JobCancelled, JobUpdated, Report
from gpusquad.core.transitions import FINAL, JobState
from gpusquad.model.cluster import Cluster
from gpusquad.model.codec import job_from_dict, job_to_dict
from gpusquad.model.prediction import Predictor
from gpusquad.model.priority import DEFAULT_PRIORITY, is_above_high
from gpusquad.server.answers import (
    JobChange,
    Who,
)
from gpusquad.server.errors import Conflict, Forbidden, NotFound
from gpusquad.server.services.cluster.agent_watch import AgentWatcher
from gpusquad.server.services.cluster.card_suspects import CardSuspects
from gpusquad.server.services.cluster.cluster_sync import ClusterSync
from gpusquad.server.services.cluster.hang_watch import HangWatcher
from gpusquad.server.services.cluster.nodes import NodeService
from gpusquad.server.services.cluster.pod_rights import PodRights
from gpusquad.server.services.cluster.progress_tracking import ProgressModel, ProgressTracking
from gpusquad.server.services.context import Listener, SchedulerClock, SchedulerContext
from gpusquad.server.services.jobs.cluster_submissions import ClusterSubmissions
from gpusquad.server.services.jobs.containment import Containment
from gpusquad.server.services.jobs.estimators import EstimatorRunner, Estimators
from gpusquad.server.services.jobs.holds import Holds
from gpusquad.server.services.jobs.intake import Intake
from gpusquad.server.services.jobs.launches import ReadSecret
from gpusquad.server.services.jobs.outcomes import ON_CARDS, STOP_REQUESTED, Outcomes
from gpusquad.server.services.jobs.overruns import Overruns
from gpusquad.server.services.jobs.prediction_refresh import PredictionRefresh
from gpusquad.server.services.jobs.reservations import ReservationLog
from gpusquad.server.services.jobs.restore import restore
from gpusquad.server.services.jobs.rights import check_rights, rights_of
from gpusquad.server.services.jobs.urgent_budgets import UrgentBudgets, check_budget
from gpusquad.server.services.policy import DEFAULT_MODE, PolicyService
from gpusquad.server.services.prediction.predictor import JobPrediction, LockedPredictor
from gpusquad.server.services.prediction.predictor_files import PredictorFiles
from gpusquad.server.services.prediction.training import PredictorTraining
from gpusquad.server.services.queries.queries import QueryService
from gpusquad.server.services.runtime.observer import Observer
from gpusquad.server.services.runtime.records import forecast_record, run_forecast_row
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.scheduler_pass import SchedulerPass
from gpusquad.server.services.sharing.interference_learning import InterferenceKnowledge, InterferenceLearner
from gpusquad.server.services.sharing.memory_resize import MemoryResizer, ResizeAgreement, resizes, with_memory
from gpusquad.server.services.sharing.sharing_updates import SharingUpdates
from gpusquad.spec.convert import DEFAULT_GRACE_S
from gpusquad.spec.model import JobSpec
from gpusquad.store import attempts, jobs
from gpusquad.store.database import Database
from gpusquad.store.jobs import JobRow

MakeEngine = Callable[[Callable[[Any], None]], Engine]


@dataclass(frozen=True)
class Setup:
    """Dependencies and settings of a scheduler."""

    database: Database
    clock: SchedulerClock
    cluster: Cluster
    make_engine: MakeEngine
    predictor: Predictor
    read_secret: ReadSecret
    models: PredictorFiles | None = None
    """Where trained predictors are stored. None: trained again at each start."""
    make_progress_model: Callable[[], ProgressModel] | None = None
    """Predicts ends from progress. None: progress is only shown."""
    known: InterferenceKnowledge | None = None
    """Interference between jobs that share a card. None: not used."""
    simulated: bool = False
    mode: str = DEFAULT_MODE
    rules: HangRules = field(default_factory=HangRules)
    containment: ContainmentRules = field(default_factory=ContainmentRules)
    on_cluster: bool = False
    """The engine is a ``ClusterEngine``: it also reports gangs that were not submitted here."""
    maker: JobObjectCreator | None = None
    """Creates the cluster objects of jobs that are submitted here."""
    cluster_priority: Callable[[str], str] = lambda job_id: DEFAULT_PRIORITY
    """Priority class that the cluster grants to the pods of a job, by its id."""
    observer: Observer = field(default_factory=Observer)
    estimators: EstimatorRunner | None = None
    """Runs the estimators of job files. None: they are refused."""
    allows_unmanaged: Callable[[str], bool] = lambda card: False
    """Whether jobs may share this card although an unmanaged process runs on it."""


class Scheduler:
    """Accepts jobs, decides, has the engine run them, and answers queries."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._tenants = TenantCache(setup.database)
        engine = setup.make_engine(self._report)
        cluster_engine = cast(ClusterEngine, engine) if setup.on_cluster else None
        predictor = LockedPredictor(setup.predictor)
        self._training = PredictorTraining(predictor, setup.database, setup.models)
        self._context = SchedulerContext(
            setup.database, setup.clock, engine, predictor, self._training, setup.simulated,
            cluster_engine, setup.observer, setup.containment,
        )  # fmt: skip
        self._training.prediction_refresh = PredictionRefresh(self._context)
        self._sharing_updates = SharingUpdates(self._context, self._tenants, setup.known)
        self._resizer = MemoryResizer(self._context)
        self._containment = containment = Containment(self._context)
        self._outcomes = Outcomes(self._context, self._tenants, setup.read_secret, self._sharing_updates, containment)
        self._holds = Holds(self._context, self._outcomes, containment)
        containment.on_suspected = self._holds.contain_group
        self._submissions = (
            ClusterSubmissions(self._context, setup.maker, setup.read_secret) if setup.maker is not None else None
        )
        self._budgets = UrgentBudgets(
            self._context, self._tenants, setup.cluster_priority,
            self._submissions.note if self._submissions is not None else None,
        )  # fmt: skip
        self._intake = Intake(self._context, self._tenants, self._holds, self._budgets, self._submissions)
        self._estimators = self._make_estimators(setup)
        self.queries = QueryService(self._context, self._intake)
        self.policy_service = PolicyService(self._context, self._tenants, setup.mode)
        self.node_service = NodeService(
            self._context, self._outcomes, setup.allows_unmanaged, lambda: self.policy_service.label, containment
        )
        self.suspects = CardSuspects(self._context, self.node_service, containment, self._holds)
        self._cluster_sync = ClusterSync(
            self._context, self._outcomes, self._holds, self.node_service, self._sharing_updates,
            self._intake.next_sequence, PodRights(self._tenants, setup.cluster_priority, self._budgets.spent),
            self._submissions,
        )  # fmt: skip
        # Called by the outcomes of jobs, in this order.
        self._outcomes.on_gone = [self.node_service.gang_left]
        self._outcomes.on_held = [self._holds.watch]
        estimators = [] if self._estimators is None else [self._estimators.job_ended]
        self._outcomes.on_final = [self._holds.job_ended, self._cluster_sync.job_ended, *estimators]
        reservations = ReservationLog(self._context)
        overruns = Overruns(self._context, reservations)
        self._pass = SchedulerPass(
            self._context, self._outcomes, self._holds, self.queries, reservations, overruns, self._budgets,
            self.policy_service.review,
        )  # fmt: skip
        self._context.run_pass = self._pass.run
        progress = ProgressTracking(self._context, setup.make_progress_model)
        self._neighbours = InterferenceLearner(self._context, setup.known)
        self.hangs = HangWatcher(self._context, self._outcomes, self._tenants, setup.rules, self.suspects.suspect)
        self.watcher = AgentWatcher(
            self._context, self.node_service, self.hangs, progress, self._neighbours, self.suspects
        )

    def _make_estimators(self, setup: Setup) -> Estimators | None:
        if setup.estimators is None:
            return None
        made = Estimators(
            self._context, self._outcomes, self._tenants, setup.read_secret, self._intake.advice, setup.estimators
        )
        made.on_resolved = self._holds.resolved
        self._intake.estimators = self._holds.estimators = made
        return made

    # -- lifecycle -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Restore the state from the store, then start the scheduler thread."""
        self._restore()
        self._training.start()
        self._context.loop.start()

    def prepare(self) -> None:
        """Everything but the threads: restore the state and load the predictor now."""
        self._restore()
        self._training.load_history()

    def _restore(self) -> None:
        self._tenants.reload()
        with self._setup.database.read() as connection:
            self._intake.count_from(jobs.next_sequence(connection))
        policies = self.policy_service.load()
        recovered = restore(
            self._context, self._setup.cluster, policies, self._pass.carry_out, self._holds, self._neighbours.rate
        )
        self._pass.reservations.restore(self._context.state.committed_us)
        self.node_service.load()
        self.suspects.load()
        self._containment.restore(self._context.rows.values())
        if self._context.cluster_engine is not None:
            self._cluster_sync.load()
        self._resume(recovered)
        self._context.engine.recover(recovered)
        if self._context.cluster_engine is not None:
            self._sharing_updates.update_all()  # pods may have been changed while the service was down

    def _resume(self, recovered: Sequence[tuple[str, int]]) -> None:
        """On a cluster: hand the engine the placements that were decided before the restart."""
        engine = self._context.cluster_engine
        for job_id, attempt in recovered if engine is not None else ():
            row, job = self._context.rows[job_id], self._context.job(job_id)
            sharing_params, tasks = self._sharing_updates.of(row, job), (row.placement or {}).get("tasks", ())
            places = [TaskLocation(task["node"], tuple(task["cards"]), sharing_params) for task in tasks]
            assert engine is not None
            engine.resume(job, attempt, places, row.state != JobState.STARTING)
            if JobState(row.state) in STOP_REQUESTED:  # the engine may not have received or finished the stop
                engine.stop(job_id, attempt, (row.stop or {}).get("cause", ""), DEFAULT_GRACE_S)

    def step(self) -> int:
        """One pass in the caller's thread. Returns when the next one is due if nothing happens before."""
        self._context.loop.run_pass()
        return self._context.driver.next_wake_us()

    def close(self) -> None:
        """Stop deciding. Running jobs continue."""
        if self._estimators is not None:
            self._estimators.close()
        self._context.loop.close()
        self._context.engine.close()
        self._training.close()
        self._neighbours.close()

    def ready(self) -> tuple[bool, str]:
        if self._context.unavailable:
            return False, f"the store does not answer: {self._context.unavailable}"
        if not self._context.loop.alive:
            return False, "the scheduler is not running"
        return True, ""

    def on_event(self, callback: Listener) -> None:
        """Call ``callback`` after each pass and each submission with the events just stored."""
        self._context.listeners.append(callback)

    def on_broken(self, call: Callable[[], None]) -> None:
        """Call ``call`` if the scheduler cannot continue and the service must restart."""
        self._context.on_broken = call

    def running_attempts(self) -> list[tuple[str, int, list[str]]]:
        """Job, attempt and cards of every running gang, for the agent."""
        rows = list(self._context.rows.values())
        return [
            (row.id, row.attempt, [c for task in (row.placement or {}).get("tasks", ()) for c in task["cards"]])
            for row in rows
            if row.state == JobState.RUNNING
        ]

    def tenants(self) -> list[str]:
        return self._tenants.names()

    @property
    def context(self) -> SchedulerContext:
        return self._context

    @property
    def neighbours(self) -> InterferenceLearner:
        return self._neighbours

    # -- jobs ------------------------------------------------------------------------------------------------------

    def submit(self, specs: Sequence[JobSpec], who: Who, group_id: str | None = None,
               key: str | None = None) -> list[JobRow]:  # fmt: skip
        return self._intake.submit(specs, who, group_id, key)

    def cancel(self, job_id: str, who: Who, cause: str = "") -> JobRow:
        """Remove a pending job at once, or stop a running one after its grace time. A second call changes nothing."""
        reason = cause or f"cancelled by {who.user}"

        def handle(row: JobRow) -> None:
            unit, engine = self._context.unit, self._context.cluster_engine
            if engine is not None and not row.spec and row.state in (JobState.PENDING, JobState.HELD):
                unit.after_commit.append(lambda: engine.withdraw(job_id, reason))
            if row.state == JobState.PENDING:
                self._context.driver.apply(unit.now_us, JobCancelled(job_id))
                self._outcomes.finish(unit, job_id, JobState.CANCELLED, reason, actor=who.user)
            elif row.state == JobState.HELD:
                self._outcomes.finish(unit, job_id, JobState.CANCELLED, reason, actor=who.user)
            elif row.state != JobState.STOPPING:
                self._context.driver.apply(unit.now_us, GangStopping(job_id))
                self._outcomes.request_stop(unit, job_id, JobState.STOPPING, "cancelled", reason, who.user)

        return self._change(job_id, handle)

    def hold(self, job_id: str, who: Who) -> JobRow:
        def handle(row: JobRow) -> None:
            if row.state not in (JobState.PENDING, JobState.HELD):
                raise Conflict(f"job {job_id} is {row.state}", cure="only pending jobs can be held")
            self._holds.hold(self._context.unit, row, who.user)

        return self._change(job_id, handle)

    def release(self, job_id: str, who: Who) -> JobRow:
        def handle(row: JobRow) -> None:
            if row.state != JobState.HELD:
                raise Conflict(f"job {job_id} is {row.state}, not held")
            self._holds.release(self._context.unit, row, who.user)

        return self._change(job_id, handle)

    def update(self, job_id: str, change: JobChange, who: Who) -> JobRow:
        """Change the SLO, priority, estimate or memory quota of a pending or running job."""
        row = self.row(job_id)
        over_budget = self._budgets.refusal(row.tenant, change.priority, who) if change.priority is not None else None
        with self._resizer.agreed(row, change) as agreed:
            return self._change(job_id, lambda row: self._update(row, agreed, who, over_budget))

    def _update(self, row: JobRow, agreed: ResizeAgreement, who: Who, over_budget: Forbidden | None) -> None:
        unit, job_id, change = self._context.unit, row.id, agreed.change
        before = self._context.job(job_id)
        job = job_from_dict(job_to_dict(before) | _as_written(change))
        check_rights(rights_of(who, self._tenants.get(row.tenant)), who, job, before)
        check_budget(over_budget, job, before)
        if resizes(change):
            job = with_memory(job, change)
            self._resizer.check(row, job, agreed)
        self._context.state.lane(job)  # raises for an unknown lane before anything changes
        prediction: JobPrediction | None = None
        if change.estimate_us is not None or change.limit_us is not None:
            prediction = self._context.forecast(job, row.kept_us)
        self._context.driver.apply(unit.now_us, JobUpdated(job, prediction.forecast if prediction else None))
        self._context.jobs[job_id] = job
        columns = {"name": job.name, "priority": job.priority, "queue": job.queue, "lane": job.lane,
                   "core": job_to_dict(job)}  # fmt: skip
        if prediction is not None:
            columns["forecast"] = forecast_record(prediction.forecast, prediction.run)
        if prediction is not None and row.started_us is None:
            made = run_forecast_row(job, row.attempt, unit.now_us, prediction.run)
            unit.predictions.append(made)
        unit.change(row.id, **columns)
        if row.state in ON_CARDS and is_above_high(job.priority):
            unit.writes.append(lambda c: attempts.set_urgent(c, row.id, row.attempt, unit.now_us))
        unit.after_commit.append(lambda: self._sharing_updates.update(job_id))
        submissions = self._submissions
        if submissions is not None:
            unit.after_commit.append(lambda: submissions.note(job_id, job))
        unit.record(row.id, "updated", actor=who.user, data=_event_data(change))

    def row(self, job_id: str) -> JobRow:
        with self._setup.database.read() as connection:
            row = jobs.get(connection, job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id!r}")
        return row

    def _change(self, job_id: str, handle: Callable[[JobRow], None]) -> JobRow:
        """Run ``handle`` in the scheduler's thread. Ended jobs are read from the store in the caller's thread
        instead."""

        def change() -> bool:
            row = self._context.rows.get(job_id)
            if row is not None:
                handle(row)
            return row is not None

        was_there = self._context.loop.call(change)
        row = self.row(job_id)
        if was_there:
            return row
        if JobState(row.state) in FINAL:
            raise Conflict(f"job {job_id} has ended: {row.state}")
        raise Conflict(f"job {job_id} is still being accepted", cure="retry")

    def reload_tenants(self) -> None:
        self.policy_service.tenants_changed()
        self._sharing_updates.update_all()

    def _report(self, report: Report | Sighting) -> None:
        if isinstance(report, (AttemptStarted, AttemptEnded)):
            if self._estimators is None or not self._estimators.report(report):
                self._outcomes.report(report)
        else:
            self._cluster_sync.hear(report)


def _event_data(change: JobChange) -> dict[str, Any]:
    """Data of the job's event."""
    memory = {"memory_bytes": change.memory, "memory_milli": change.memory_milli}
    return _as_written(change) | {name: value for name, value in memory.items() if value is not None}


def _as_written(change: JobChange) -> dict[str, Any]:
    """Changed fields in the job's serialised form."""
    texts = {name: getattr(change, name) for name in ("name", "priority", "queue", "lane")}
    times = {"estimate": change.estimate_us, "limit": change.limit_us}
    written = {name: value for name, value in texts.items() if value is not None}
    written |= {name: value / 1e6 for name, value in times.items() if value is not None}
    if change.slo is not None:
        goals = {"latency" if name == "p99" else name: value for name, value in change.slo.items()}
        written["slo"] = {name: value for name, value in goals.items() if value is not None} or None
    return written
