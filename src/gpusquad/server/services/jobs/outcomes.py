"""Applies decisions and engine reports: state transitions, events, and calls to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from gpusquad.core.containment.losses import Loss, LossKind, crash_backoff_s, loss_backoff_s, losses_record, spread
from gpusquad.core.ports import AttemptEnded, AttemptStarted, GangEnded, JobSubmitted, JobUpdated, Report
from gpusquad.core.state.live_updates import past_of as past_of_waiting
from gpusquad.core.transitions import JobState
from gpusquad.model.decision import Decision, Preempt, Refuse, Start, Stop
from gpusquad.model.prediction import PastRun
from gpusquad.model.priority import is_above_high
from gpusquad.model.units import US_PER_S
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.containment import CONTAINED, Containment
from gpusquad.server.services.jobs.containment import Verdict as Blame
from gpusquad.server.services.jobs.launches import ReadSecret, launch_of
from gpusquad.server.services.jobs.memory_retries import raise_memory
from gpusquad.server.services.jobs.verdicts import Verdict, ended_at_us, judge_end, may_retry, result_of, rule_of
from gpusquad.server.services.prediction.predictor import JobPrediction
from gpusquad.server.services.prediction.training import how_of
from gpusquad.server.services.runtime.loop import Finish
from gpusquad.server.services.runtime.records import (
    forecast_of,
    forecast_record,
    past_of,
    placement_record,
    run_forecast_row,
)
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.server.services.sharing.sharing_updates import SharingUpdates
from gpusquad.spec.check import spec_from_dict
from gpusquad.spec.convert import DEFAULT_GRACE_S, grace_s
from gpusquad.store import attempts, run_forecasts
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.scheduler")
S = JobState
ON_CARDS = frozenset({S.STARTING, S.RUNNING, S.PREEMPTING, S.STOPPING, S.LOST})
STOP_REQUESTED = frozenset({S.PREEMPTING, S.STOPPING, S.LOST})
LOST_GRACE_S = 5.0
"""Grace time of gangs on a faulty card: little can be saved."""


class Outcomes:
    """Carries out decisions and handles the engine's reports."""

    def __init__(
        self, context: SchedulerContext, tenants: TenantCache, read_secret: ReadSecret,
        sharing_updates: SharingUpdates, containment: Containment,
    ) -> None:  # fmt: skip
        self._context = context
        self._containment = containment
        self._tenants = tenants
        self._sharing_updates = sharing_updates
        self._read_secret = read_secret
        self.on_final: Sequence[Callable[[UnitOfWork, JobRow], None]] = ()
        """Called with the unit of work and the row of each job that ended."""
        self.on_held: Sequence[Callable[[JobRow], None]] = ()
        """Called with the row of each job that is held until its next attempt."""
        self.on_gone: Sequence[Callable[[JobRow], None]] = ()
        """Called with the row of each gang that left its cards, before any other effect."""

    def report(self, report: Report) -> None:
        """From any thread."""
        self._context.loop.post(lambda: self._handle_report(report))

    def request_stop(self, unit: UnitOfWork, job_id: str, then: JobState, how: str, cause: str, actor: str = "",
                   for_job: str | None = None, hung_on: Sequence[str] = (),
                   blame: float | None = None) -> None:  # fmt: skip
        """Ask the engine to stop a gang on its cards. The rest follows when the engine reports its end. ``hung_on``:
        its cards if it is stopped because it hangs; then it may be tried once more, on others. ``blame``: its share of
        the blame for a fault of a card."""
        row = unit.rows[job_id]
        requested: dict[str, Any] = {"how": how, "cause": cause, "for_job": for_job}
        if actor:
            requested["actor"] = actor
        tries_again = bool(hung_on) and self._may_try_again(row)
        if blame is not None:
            requested["blame"] = blame
        if tries_again:
            requested["hung_on"] = list(hung_on)
        data = {"for": for_job} if for_job else _lost_again(row) if then is S.LOST else None
        unit.transition(job_id, then, str(then), cause, actor=actor, stop=requested, data=data)
        grace = LOST_GRACE_S if then is S.LOST else self._grace_s(row)
        engine = self._context.cluster_engine
        if engine is not None and then is S.STOPPING and not tries_again:  # its owner must not create it again
            unit.after_commit.append(lambda: engine.withdraw(job_id, cause))
        unit.after_commit.append(lambda: self._context.engine.stop(job_id, row.attempt, cause, grace))

    def _may_try_again(self, row: JobRow) -> bool:
        """Whether a job that hangs is tried once more. On a cluster its owner counts the retries, but does not know of
        hangs. Jobs that others made are their business."""
        if self._context.cluster_engine is None:
            return may_retry(row)
        rule = rule_of(row)
        return rule.count > 0 and "failed" in rule.on and not self._context.job(row.id).avoid_cards

    def finish(self, unit: UnitOfWork, job_id: str, then: JobState, cause: str, *, actor: str = "",
               **columns: Any) -> None:  # fmt: skip
        """End the job permanently."""
        columns.setdefault("ended_us", unit.now_us)
        engine, before = self._context.cluster_engine, unit.rows[job_id]
        if engine is not None and before.spec and before.state in (S.PENDING, S.HELD):
            unit.after_commit.append(lambda: engine.withdraw(job_id, cause))  # made for this job only
        row = unit.transition(job_id, then, str(then), cause, actor=actor, stop=None, **columns)
        for call in self.on_final:
            call(unit, row)
        self._context.drop(job_id)

    # -- decisions -------------------------------------------------------------------------------------------------

    def apply(self, unit: UnitOfWork, decisions: Sequence[Decision]) -> None:
        """Carry out the decisions of a cycle."""
        for decision in decisions:
            self._context.observer.decided(type(decision).__name__.lower())
            if isinstance(decision, Start):
                self._start(unit, decision)
            elif isinstance(decision, Preempt):
                self.request_stop(unit, decision.job_id, S.PREEMPTING, "preempted", self._preempted_by(unit, decision),
                                for_job=decision.for_job)  # fmt: skip
            elif isinstance(decision, Stop):
                self.request_stop(unit, decision.job_id, S.STOPPING, "timed_out", decision.cause)
            elif isinstance(decision, Refuse):
                self.finish(unit, decision.job_id, S.FAILED, str(decision.reason))

    def _preempted_by(self, unit: UnitOfWork, decision: Preempt) -> str:
        other = unit.rows.get(decision.for_job)
        return f"for {other.name or other.id} of {other.user}: {decision.cause}" if other else decision.cause

    def _start(self, unit: UnitOfWork, decision: Start) -> None:
        context, job_id = self._context, decision.job_id
        job, fixed = context.job(job_id), context.fixed
        record = placement_record(job, decision.placement, fixed)
        row = unit.rows[job_id]
        cards = [card for task in record["tasks"] for card in task["cards"]]
        context.observer.started(row.tenant, (unit.now_us - row.submitted_us) / US_PER_S)
        row = unit.transition(job_id, S.STARTING, "starting", decision.cause, data={"cards": cards},
                        started_us=unit.now_us, placement=record, progress=None, result=None)  # fmt: skip
        opened = attempts.AttemptRow(
            job_id=job_id, attempt=row.attempt, tenant=row.tenant, user=row.user, started_us=unit.now_us,
            ended_us=None, gpu_milli=_held_milli(job, decision), cards=cards, how="", cause="",
            urgent_from_us=unit.now_us if is_above_high(job.priority) else None,
        )  # fmt: skip
        unit.opened_attempts.append(opened)
        unit.after_commit.append(lambda: self._launch(row, decision))

    def _launch(self, row: JobRow, decision: Start) -> None:
        context = self._context
        try:
            job = context.job(row.id)
            launch = launch_of(row, job, decision.placement, context.fixed, simulated=context.simulated,
                               read_secret=self._read_secret, run_as=self._tenants.run_as(row.tenant),
                               sharing_params=self._sharing_updates.of(row, job),
                               is_found=context.cluster_engine is not None)  # fmt: skip
            context.engine.launch(launch)
        except Exception as error:
            # Nothing runs, whatever failed: the gang must not keep its cards.
            _log.warning("gang not started", job=row.id, attempt=row.attempt, error=repr(error))
            cause = f"could not be started: {error}"
            self.report(AttemptEnded(row.id, row.attempt, "failed", cause, never_started=True))

    def _grace_s(self, row: JobRow) -> float:
        return grace_s(spec_from_dict(dict(row.spec))) if row.spec else DEFAULT_GRACE_S

    # -- reports ---------------------------------------------------------------------------------------------------

    def _handle_report(self, report: Report) -> Finish | None:
        context = self._context
        row = context.rows.get(report.job_id)
        if row is None or row.attempt != report.attempt or JobState(row.state) not in ON_CARDS:
            return None  # an older attempt, or one that has ended already
        if isinstance(report, AttemptStarted):
            self._started(context.unit, row, report)
        else:
            self._ended(context.unit, row, report)
        return None

    def _started(self, unit: UnitOfWork, row: JobRow, report: AttemptStarted) -> None:
        state = JobState(row.state)
        if state in STOP_REQUESTED:
            cause, grace = (row.stop or {}).get("cause", ""), self._grace_s(row)
            unit.after_commit.append(lambda: self._context.engine.stop(row.id, row.attempt, cause, grace))
        elif row.id not in self._context.state.runs:
            # Found after a restart on cards that no longer exist.
            self.request_stop(unit, row.id, S.LOST, "lost", "its cards no longer exist")
        elif state is S.STARTING:
            unit.transition(row.id, S.RUNNING, "running", report.note, data={"pids": list(report.pids)})
            self._context.predictor.begin(self._context.job(row.id), unit.now_us)

    def _ended(self, unit: UnitOfWork, row: JobRow, report: AttemptEnded) -> None:
        verdict = judge_end(row, report)
        if report.is_refused and JobState(row.state) is S.STARTING:
            self._refused(unit, row, verdict)
            return
        ended_us = ended_at_us(unit, row, report)
        unit.writes.append(lambda c: attempts.close(c, row.id, row.attempt, ended_us, verdict.how, verdict.cause))
        if row.started_us is not None and not report.never_started:
            self._learn(unit, row, verdict, report, ended_us)
        for call in self.on_gone:
            call(row)
        result = result_of(report)
        blame = self._containment.take_verdict(row)
        if self._shows_health(unit, row, verdict):
            self._containment.ran_well(row, unit.now_us)
        if blame is not None and (verdict.how == "lost" or verdict.then is S.HELD):
            self._contain(unit, row, verdict, result, blame)
        elif verdict.how == "lost":
            fails = report.failed_by_itself and JobState(row.state) not in STOP_REQUESTED
            self._lost(unit, row, verdict, result, never_started=report.never_started, fails=fails)
        elif verdict.then is S.PENDING:
            self._again(unit, row, verdict, result)
        elif verdict.then is S.HELD:
            self._retry_later(unit, row, verdict, result)
        else:
            last = _last_progress(row, report, ended_us) if verdict.then is S.SUCCEEDED else {}
            self._over(unit, row, verdict, result, ended_us, last)

    def _refused(self, unit: UnitOfWork, row: JobRow, verdict: Verdict) -> None:
        """The engine did not begin the attempt. It is forgotten, and the job is pending with its place in the queue."""
        unit.writes.append(lambda c: attempts.forget(c, row.id, row.attempt))
        for call in self.on_gone:
            call(row)
        self._again(unit, row, verdict, None, is_refused=True)

    def _shows_health(self, unit: UnitOfWork, row: JobRow, verdict: Verdict) -> bool:
        """Whether the attempt shows that its program does not damage cards at once."""
        return verdict.how == "succeeded" or not self._containment.is_early(_ran_us(unit, row))

    def _lost(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, result: dict[str, Any] | None, *,
              never_started: bool, fails: bool) -> None:  # fmt: skip
        """Retry it, later with each recent loss, and at last hold it. Only the first of them keeps its place: a gang
        that is lost again and again would hold up everything behind it."""
        ran_us = 0 if never_started else _ran_us(unit, row)
        kind: LossKind = "fault" if JobState(row.state) is S.LOST else "start" if never_started else "lost"
        loss = Loss(unit.now_us, kind, verdict.cause, step=(row.progress or {}).get("step"),
                    blame=(row.stop or {}).get("blame"))  # fmt: skip
        losses, again = self._containment.after_loss(row, loss, ran_us), _lost_again(row)
        row = unit.change(row.id, losses=losses_record(losses))
        exhausted = self._containment.exhausted(losses)
        if exhausted is not None:
            self._contain(unit, row, verdict, result, exhausted)
        elif len(losses) > 1:
            delay_s = loss_backoff_s(len(losses), self._containment.rules)
            shares = self._context.job(row.id).has_shares
            self._delay(unit, row, verdict, result, spread(delay_s, row.id) if shares else delay_s, data=again)
        else:
            self._again(unit, row, verdict, result, again if kind == "fault" else None)
            if fails:
                self._requeue_behind(unit, row.id)

    def _learn(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, report: AttemptEnded, ended_us: int) -> None:
        """Store the actual run time beside the prediction, and train the predictor with it."""
        context, how = self._context, how_of(verdict.how)
        ran_us = ended_us - (row.started_us or 0)
        peak = context.peaks.take(row.id, row.attempt, report.usage)
        truth = run_forecasts.Truth(
            row.id, row.attempt, ran_us, how, unit.now_us, peak.memory_bytes, peak.cpu_milli,
            peak.host_memory_bytes, peak.cards,
        )  # fmt: skip
        unit.writes.append(lambda c: run_forecasts.settle(c, truth))
        run_us = max(1, row.kept_us + ran_us)
        past = PastRun(
            context.job(row.id), run_us, ended_us, how, peak.memory_bytes, peak.cpu_milli, peak.host_memory_bytes
        )
        context.training.learn(row.attempt, past)

    def _predict(self, unit: UnitOfWork, row: JobRow, attempt: int, kept_us: int) -> JobPrediction:
        """Predict the next attempt."""
        job = self._context.job(row.id)
        predicted = self._context.forecast(job, kept_us)
        made = run_forecast_row(job, attempt, unit.now_us, predicted.run)
        unit.predictions.append(made)
        return predicted

    def _over(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, result: dict[str, Any] | None,
              ended_us: int, progress: Mapping[str, Any]) -> None:  # fmt: skip
        self._leave(unit, row, verdict.how)
        actor = (row.stop or {}).get("actor", "") if verdict.then is S.CANCELLED else ""
        columns = {"result": result, "ended_us": ended_us, **progress}
        self.finish(unit, row.id, verdict.then, verdict.cause, actor=actor, **columns)

    def _again(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, result: dict[str, Any] | None,
               data: dict[str, Any] | None = None, *, is_refused: bool = False) -> None:  # fmt: skip
        """Return it to the queue with its eligible time and the work its checkpoint kept."""
        context = self._context
        if verdict.how == "lost" and JobState(row.state) is not S.LOST and not is_refused:
            row = unit.transition(row.id, S.LOST, "lost", verdict.cause, stop=None)
        kept_us = self._kept_us(unit, row) if verdict.how == "preempted" else 0
        self._leave(unit, row, verdict.how, kept_us)
        if row.id in context.state.queue:
            waiting = context.state.queue[row.id]
            past, forecast = past_of_waiting(waiting), waiting.prediction
        else:  # unknown to the core because its cards no longer exist
            past, forecast = replace(past_of(row), attempt=row.attempt + 1), forecast_of(row)
            context.driver.apply(unit.now_us, JobSubmitted(context.job(row.id), forecast, past))
        predicted = self._predict(unit, row, past.attempt, past.kept_us)
        unit.transition(
            row.id, S.PENDING, "preempted" if verdict.how == "preempted" else "requeued", verdict.cause,
            attempt=past.attempt, kept_us=past.kept_us, served_gpu_us=past.served_gpu_us,
            preemptions=past.preemptions, forecast=forecast_record(forecast, predicted.run), placement=None,
            started_us=None, stop=None, result=result, data=data,
        )  # fmt: skip

    def _requeue_behind(self, unit: UnitOfWork, job_id: str) -> None:
        """The job itself has failed: its place counts from now."""
        self._context.count_place_from(unit, job_id, unit.now_us)
        self._context.driver.apply(unit.now_us, JobUpdated(self._context.job(job_id)))

    def _retry_later(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, result: dict[str, Any] | None) -> None:
        """Use up a retry; fast failures wait longer each time. After a hang there is only one more, on other cards."""
        verdict = replace(verdict, cause=verdict.cause + raise_memory(self._context, unit, row, result))
        wait_s = max(crash_backoff_s(row.attempt, _ran_us(unit, row) / US_PER_S), rule_of(row).backoff_s)
        hung_on = (row.stop or {}).get("hung_on", ())
        self._delay(unit, row, verdict, result, wait_s, tries=row.retries_left if hung_on else 1)
        if hung_on:
            self._context.avoid_cards(unit, row.id, hung_on)

    def _delay(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, result: dict[str, Any] | None, wait_s: float,
               tries: int = 0, data: dict[str, Any] | None = None) -> None:  # fmt: skip
        """Hold the job until its next attempt. Its place counts from then: it could start before others again and
        again."""
        wait_us = int(wait_s * US_PER_S)
        release_us = unit.now_us + wait_us
        cause = f"{verdict.cause}; next attempt in {wait_s:.0f} s"
        self._hold(unit, row, result, "retry", cause, release_us=release_us, retries_left=row.retries_left - tries,
                   stop=None, data={**data, "wait_us": wait_us} if data else None)  # fmt: skip
        self._context.count_place_from(unit, row.id, release_us)

    def _contain(self, unit: UnitOfWork, row: JobRow, verdict: Verdict, result: dict[str, Any] | None,
                 blame: Blame) -> None:  # fmt: skip
        """Hold it until its user releases it."""
        if verdict.how == "lost" and JobState(row.state) is not S.LOST:
            row = unit.transition(row.id, S.LOST, "lost", verdict.cause, stop=None)
        stop = {"how": CONTAINED, "cause": blame.reason, "cards": list(blame.cards)}
        self._hold(unit, row, result, "held", blame.reason, release_us=None, stop=stop)

    def _hold(self, unit: UnitOfWork, row: JobRow, result: dict[str, Any] | None, kind: str, cause: str,
              **columns: Any) -> None:  # fmt: skip
        """Move it from its cards to the held jobs, as the next attempt."""
        served_us = row.served_gpu_us + _ran_us(unit, row) * row.gpu_milli // 1000
        self._leave(unit, row, "held")
        self._context.driver.forget(row.id)
        predicted = self._predict(unit, row, row.attempt + 1, row.kept_us)
        row = unit.transition(
            row.id, S.HELD, kind, cause, attempt=row.attempt + 1, placement=None, started_us=None,
            served_gpu_us=served_us, result=result, forecast=forecast_record(predicted.forecast, predicted.run),
            **columns,
        )  # fmt: skip
        for call in self.on_held:
            call(row)

    def _leave(self, unit: UnitOfWork, row: JobRow, how: Any, kept_us: int = 0) -> None:
        if row.id in self._context.state.runs:
            self._context.driver.apply(unit.now_us, GangEnded(row.id, how, kept_us))

    def _kept_us(self, unit: UnitOfWork, row: JobRow) -> int:
        """Work kept by the last checkpoint, by the job's checkpoint interval. A restart is no work."""
        checkpoint = self._context.job(row.id).checkpoint
        worked_us = max(0, _ran_us(unit, row) - (checkpoint.restart_us if row.attempt else 0))
        return worked_us // checkpoint.every_us * checkpoint.every_us if checkpoint.every_us else 0


def _lost_again(row: JobRow) -> dict[str, Any] | None:
    """Data of the events of a loss after others, which share one notice."""
    return {"losses": len(row.losses) + 1} if row.losses else None


def _ran_us(unit: UnitOfWork, row: JobRow) -> int:
    return unit.now_us - row.started_us if row.started_us is not None else 0


def _held_milli(job: Any, decision: Start) -> int:
    total = 0
    for part in decision.placement.parts:
        total += len(part.nodes) * job.groups[part.request_index][0].gpu_milli
    return total


def _last_progress(row: JobRow, report: AttemptEnded, ended_us: int) -> dict[str, Any]:
    """The column ``progress`` by the end of the output. Empty: nothing was read there, or other steps were counted
    before."""
    if report.steps is None:
        return {}
    (step, total), before = report.steps, row.progress or {}
    if before and (before["total"] != total or before["step"] > step):
        return {}
    ratio = min(1.0, step / total) if total else None
    return {"progress": {**before, "step": step, "total": total, "ratio": ratio, "at_us": ended_us}}
