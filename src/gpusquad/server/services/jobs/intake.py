"""Accepts jobs: checks them, stores them, then queues them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from sqlalchemy import Connection

from gpusquad.core.ports import JobSubmitted
from gpusquad.core.transitions import JobState
from gpusquad.model.codec import job_to_dict
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.units import show_count
from gpusquad.model.views import RunTimePrediction
from gpusquad.server.answers import Who
from gpusquad.server.errors import Conflict, Forbidden, JobRefused
from gpusquad.server.ids import ALPHABET, LENGTH, new_id
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.advice import Advice, ResolvedJob
from gpusquad.server.services.jobs.cluster_submissions import ClusterSubmissions, PendingSubmission, identified
from gpusquad.server.services.jobs.eligible_nodes import room_of
from gpusquad.server.services.jobs.estimators import Estimators, waiting_record
from gpusquad.server.services.jobs.fitting import fitted, refusal_of
from gpusquad.server.services.jobs.holds import Holds
from gpusquad.server.services.jobs.rights import check_rights, rights_of
from gpusquad.server.services.jobs.urgent_budgets import UrgentBudgets
from gpusquad.server.services.prediction.predictor import JobPrediction
from gpusquad.server.services.runtime.loop import Finish, Item
from gpusquad.server.services.runtime.records import forecast_of, forecast_record, job_of, past_of, run_forecast_row
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.spec.auto import restore_auto
from gpusquad.spec.check import spec_to_dict
from gpusquad.spec.convert import estimator_argv, retry_rule, to_job
from gpusquad.spec.model import JobSpec
from gpusquad.store import events, jobs, run_forecasts
from gpusquad.store.jobs import JobFilter, JobRow

_MAX_AFTER = 1000


class Intake:
    """Accepts jobs from any thread."""

    def __init__(
        self,
        context: SchedulerContext,
        tenants: TenantCache,
        holds: Holds,
        budgets: UrgentBudgets,
        submissions: ClusterSubmissions | None = None,
    ) -> None:
        self._context = context
        self._budgets = budgets
        self._submissions = submissions
        """Set where jobs are created as cluster objects instead of being queued here."""
        self._tenants = tenants
        self._holds = holds
        self._sequence = itertools.count(1)
        self.advice = Advice(context.database, lambda: room_of(context.fixed.cluster), self._fitted)
        self.estimators: Estimators | None = None
        """None: estimators cannot run here."""

    def count_from(self, sequence: int) -> None:
        self._sequence = itertools.count(sequence)

    def next_sequence(self) -> int:
        return next(self._sequence)

    def submit(self, specs: Sequence[JobSpec], who: Who, group_id: str | None, key: str | None) -> list[JobRow]:
        """Accept all jobs or none."""
        if key is not None:
            group_id = _group_of(who.user, key)
        again = key is not None
        now_us = self._context.clock.now_us()
        wanted = [self._job(spec, who, now_us) for spec in specs]
        self._budgets.check(wanted, who)
        self._check_estimators(specs)
        settled = self._settle(specs, wanted)
        accepted = [one.job for one in settled]
        with self._context.lock:
            for one in settled:
                self._admit(one)
        predictions = [self._context.forecast(job) for job in accepted]
        if self._submissions is not None:
            return self._create_in_cluster(self._submissions, settled, predictions, specs, who, group_id, again)
        # Jobs with shares that arrive together are placed together.
        shares = any(job.has_shares for job in accepted)
        with self._context.loop.arriving() if shares else nullcontext(self._context.loop.post) as post:
            return self._store(settled, predictions, specs, who, group_id, again, post)

    def _store(
        self,
        settled: Sequence[ResolvedJob],
        predictions: Sequence[JobPrediction],
        specs: Sequence[JobSpec],
        who: Who,
        group_id: str | None,
        again: bool,
        post: Callable[[Item], None],
    ) -> list[JobRow]:
        """Store the jobs, then queue them."""
        accepted = [one.job for one in settled]
        now_us = max(job.submitted_us for job in accepted)
        rows = [self._row(one, run, who, group_id) for one, run in zip(settled, predictions, strict=True)]
        with self._context.database.write() as connection:
            if again and (before := jobs.by_group(connection, str(group_id))):
                if not _is_same_submission(before, specs):
                    raise Conflict("this key was used for another submission", cure="use a new key for each submission")
                self._enter_later(connection, before, post)
                return before
            rows = [self._with_dependencies(connection, row, spec) for row, spec in zip(rows, specs, strict=True)]
            self._check_quota(connection, rows, who)
            jobs.insert(connection, rows)
            made = zip(accepted, predictions, strict=True)
            run_forecasts.add(connection, [run_forecast_row(job, 0, now_us, one.run) for job, one in made])
            recorded = [
                line for row, one in zip(rows, settled, strict=True) for line in _first_lines(row, one, now_us, who)
            ]
            numbers = [
                events.append(
                    connection, one.row.id, now_us, one.kind, one.row.state, 0, one.cause, one.data, one.actor
                )
                for one in recorded
            ]
            states = self._states_of_dependencies(connection, rows)
        forecasts = [one.forecast for one in predictions]
        post(lambda: self._enter(rows, accepted, forecasts, states))
        self._context.notify(list(zip(numbers, recorded, strict=True)))
        return rows

    def _create_in_cluster(
        self,
        submissions: ClusterSubmissions,
        settled: Sequence[ResolvedJob],
        predictions: Sequence[JobPrediction],
        specs: Sequence[JobSpec],
        who: Who,
        group_id: str | None,
        again: bool,
    ) -> list[JobRow]:
        """On a cluster: check the jobs as usual, then create them there. They are stored when the engine finds them."""
        requests = submissions.requests(settled, group_id)
        accepted = [
            replace(one.job, id=submissions.job_id(request)) for one, request in zip(settled, requests, strict=True)
        ]
        rows = [
            identified(self._row(replace(one, job=job), run, who, group_id), job)
            for one, job, run in zip(settled, accepted, predictions, strict=True)
        ]
        with self._context.database.read() as connection:
            before = jobs.by_group(connection, str(group_id)) if again else []
            if before and not _is_same_submission(before, [spec for row, spec in zip(rows, specs, strict=True)
                                                   if row.id in {known.id for known in before}]):  # fmt: skip
                raise Conflict("this key was used for another submission", cure="use a new key for each submission")
            if len(before) == len(rows):
                return before
            rows = [self._with_dependencies(connection, row, spec) for row, spec in zip(rows, specs, strict=True)]
            self._check_quota(connection, rows, who)
            states = self._states_of_dependencies(connection, rows)
        expected = [
            PendingSubmission(row, job, one.notes, {d["job"]: states[d["job"]] for d in row.after})
            for row, job, one in zip(rows, accepted, settled, strict=True)
        ]
        return submissions.make(requests, expected)

    def imagine(self, spec: JobSpec, who: Who) -> tuple[Job, JobPrediction]:
        """The job as it would be submitted, for a what-if query."""
        wanted = self._job(spec, who, self._context.clock.now_us())
        self._budgets.check([wanted], who)
        (settled,) = self.advice.settle([spec], [wanted])
        return settled.job, self._context.forecast(settled.job)

    def _check_estimators(self, specs: Sequence[JobSpec]) -> None:
        if self.estimators is None and any(estimator_argv(spec) for spec in specs):
            raise Invalid(
                "expect.by", "cannot run here: estimators run on the machine of the service, not in a cluster",
                "run it yourself, and submit what it prints with --expect FILE",
            )  # fmt: skip

    def _settle(self, specs: Sequence[JobSpec], wanted: Sequence[Job]) -> list[ResolvedJob]:
        """Jobs with an estimator stay open until it has ended."""
        ready = [(spec, job) for spec, job in zip(specs, wanted, strict=True) if not estimator_argv(spec)]
        settled = {one.job.id: one for one in self.advice.settle(*zip(*ready, strict=True))} if ready else {}
        return [settled.get(job.id) or ResolvedJob(spec, job) for spec, job in zip(specs, wanted, strict=True)]

    def _job(self, spec: JobSpec, who: Who, now_us: int) -> Job:
        tenant = spec.tenant or who.tenant
        if tenant != who.tenant and not who.is_admin:
            raise Forbidden(f"you belong to tenant {who.tenant}", field="tenant", cure="leave tenant out")
        if not self._tenants.known(tenant):
            raise Invalid("tenant", f"does not exist: {tenant!r}", f"choose from {', '.join(self._tenants.names())}")
        job = to_job(spec, new_id(), now_us, tenant, who.user)
        check_rights(rights_of(who, self._tenants.get(tenant)), who, job)
        return job

    def _fitted(self, settled: ResolvedJob) -> ResolvedJob:
        with self._context.lock:
            return fitted(self._context.state, settled)

    def _admit(self, settled: ResolvedJob) -> None:
        reason = refusal_of(self._context.state, settled)
        if reason is not None:
            raise JobRefused(reason)

    def _row(self, settled: ResolvedJob, predictions: JobPrediction, who: Who, group_id: str | None) -> JobRow:
        spec, job = settled.spec, settled.job
        resolved, state = settled.resolved, JobState.PENDING
        if estimator_argv(spec):
            resolved, state = waiting_record(), JobState.HELD
        return JobRow(
            id=job.id, name=job.name, tenant=job.tenant, user=job.user, queue=job.queue, group_id=group_id,
            state=str(state), attempt=0, priority=job.priority, lane=job.lane,
            submitted_us=job.submitted_us, started_us=None, ended_us=None, release_us=None,
            sequence=next(self._sequence), gpus=job.gpus, gpu_milli=job.gpu_milli, spec=spec_to_dict(spec),
            core=job_to_dict(job), forecast=forecast_record(predictions.forecast, predictions.run), kept_us=0,
            served_gpu_us=0, preemptions=0,
            retries_left=retry_rule(spec).count, after=[], placement=None, cause="", result=None, progress=None,
            stop=None, resolved=resolved,
        )  # fmt: skip

    def _with_dependencies(self, connection: Connection, row: JobRow, spec: JobSpec) -> JobRow:
        if not spec.after:
            return row
        after = [
            {"job": found, "on": requests.on}
            for requests in spec.after
            for found in self._find(connection, requests.job, row.tenant)
        ]
        if len(after) > _MAX_AFTER:
            raise Invalid("after", f"names {len(after)} jobs", f"wait for at most {_MAX_AFTER}")
        return replace(row, state=str(JobState.HELD), after=after)

    def _find(self, connection: Connection, text: str, tenant: str) -> list[str]:
        """By id, by group, or the latest job of that name with all jobs of its sweep."""
        row = jobs.get(connection, text)
        if row is not None and row.tenant == tenant:
            return [row.id]
        group = [row.id for row in jobs.by_group(connection, text) if row.tenant == tenant]
        if group:
            return group
        found = jobs.find(connection, JobFilter(name=text, tenants=(tenant,)), 1, None).items
        if not found:
            raise Invalid("after", f"no job {text!r} in tenant {tenant}", "give an id or a name")
        same = jobs.by_group(connection, found[0].group_id) if found[0].group_id else [found[0]]
        return [row.id for row in same if row.name == text]

    def _check_quota(self, connection: Connection, rows: Sequence[JobRow], who: Who) -> None:
        for tenant in {row.tenant for row in rows}:
            most = self._tenants.most_unfinished(tenant)
            if most is None:
                continue
            count = jobs.count(connection, JobFilter(states=jobs.UNFINISHED_STATES, tenants=(tenant,)))
            if count + len(rows) > most:
                unfinished = show_count(count, "unfinished job")
                raise JobRefused(Reason(
                    ReasonCode.TENANT_LIMIT, f"tenant {tenant} has {unfinished} of at most {most}",
                    "wait until some have ended, or ask for a higher limit", {"unfinished": count, "limit": most},
                ))  # fmt: skip

    def _states_of_dependencies(self, connection: Connection, rows: Sequence[JobRow]) -> dict[str, str]:
        requests = {dependency["job"] for row in rows for dependency in row.after}
        return {job_id: row.state for job_id in requests if (row := jobs.get(connection, job_id)) is not None}

    def _enter_later(self, connection: Connection, rows: Sequence[JobRow], post: Callable[[Item], None]) -> None:
        """Queue jobs that a first request stored but perhaps did not queue, because its answer was lost."""
        waiting = [row for row in rows if row.state in (JobState.PENDING, JobState.HELD)]
        states = self._states_of_dependencies(connection, waiting)
        accepted, forecasts = [job_of(row) for row in waiting], [forecast_of(row) for row in waiting]
        post(lambda: self._enter(waiting, accepted, forecasts, states))

    def _enter(self, rows: Sequence[JobRow], accepted: Sequence[Job], forecasts: Sequence[RunTimePrediction],
               states: dict[str, str]) -> Finish | None:  # fmt: skip
        """In the scheduler's thread: queue stored jobs, unless another request for the same submission did it
        already."""
        context = self._context
        for row, job, forecast in zip(rows, accepted, forecasts, strict=True):
            if row.id in context.rows or self._holds.just_ended(row.id):
                continue
            context.rows[row.id], context.jobs[row.id] = row, job
            if row.state == JobState.HELD:
                self._holds.watch(row)
                self._holds.settle(context.unit, {d["job"]: states[d["job"]] for d in row.after}, row.id)
            else:
                context.driver.apply(context.unit.now_us, JobSubmitted(job, forecast, past_of(row)))
        return None


def _first_lines(row: JobRow, settled: ResolvedJob, now_us: int, who: Who) -> list[StoryEvent]:
    """First events of a job: submitted, advice, warnings."""
    notes = [StoryEvent(row, now_us, note.kind, note.text, data=note.data) for note in settled.notes]
    if settled.spec.image:
        notes.append(
            StoryEvent(
                row, now_us, "warned", "image applies to clusters only; here tasks run as processes of this machine"
            )
        )
    return [StoryEvent(row, now_us, str(row.state), actor=who.user), *notes]


def _is_same_submission(before: Sequence[JobRow], specs: Sequence[JobSpec]) -> bool:
    return len(before) == len(specs) and all(
        restore_auto(row.spec, spec) == spec_to_dict(spec) for row, spec in zip(before, specs, strict=True)
    )


def _group_of(user: str, key: str) -> str:
    """Id of the submission with this key of this user. It has the form of an id, so that users can use it as one."""
    digest = int.from_bytes(hashlib.sha256(f"{user}\0{key}".encode()).digest())
    return "".join(ALPHABET[digest >> shift & 31] for shift in range(0, 5 * LENGTH, 5))
