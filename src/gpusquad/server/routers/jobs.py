"""Jobs: submit, list, change, stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Header

from gpusquad.core.transitions import JobState
from gpusquad.server import submission
from gpusquad.server.json_answer import Answer
from gpusquad.server.lookup import job_owned, job_seen, job_with_logs
from gpusquad.server.params import (
    USUAL_ROWS,
    Cursor,
    JobRef,
    Limit,
    QueryLine,
    States,
    Svc,
    TimeS,
    split_states,
    to_s,
    to_us,
)
from gpusquad.server.permissions import Member, Reader, tenant_seen
from gpusquad.server.requests_used import requests_view
from gpusquad.server.routers.slo_states import Slos, slo_state
from gpusquad.server.schemas.jobs import (
    CauseRequest,
    ChangedJob,
    ChangeRequest,
    FileRequest,
    JobDetail,
    JobPage,
    JobSource,
    JobView,
    Sort,
    SubmissionAnswer,
)
from gpusquad.server.services.prediction.accuracy import record_of
from gpusquad.server.services.runtime.peaks import Peaks
from gpusquad.server.views import Plain, changed_view, goals_view, hangs_view, job_view, page, record_view
from gpusquad.server.wiring import Services
from gpusquad.store import events, jobs
from gpusquad.store.jobs import JobFilter, JobRow

router = APIRouter(prefix="/jobs", tags=["jobs"])

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=128,
        pattern=r"^[\x21-\x7e]+$",
        description="Requests with the same key of the same user count as one submission",
    ),
]


def seen_job(job: JobRef, who: Reader, svc: Svc) -> JobRow:
    with svc.database.read() as c:
        return job_seen(c, job, who)


def logged_job(job: JobRef, who: Reader, svc: Svc) -> JobRow:
    with svc.database.read() as c:
        return job_with_logs(c, job, who)


def owned_job(job: JobRef, who: Member, svc: Svc) -> JobRow:
    with svc.database.read() as c:
        return job_owned(c, job, who)


SeenJob = Annotated[JobRow, Depends(seen_job)]
LoggedJob = Annotated[JobRow, Depends(logged_job)]
OwnedJob = Annotated[JobRow, Depends(owned_job)]


@router.post("", status_code=201, response_model=SubmissionAnswer)
def submit_jobs(body: FileRequest, who: Member, svc: Svc, key: IdempotencyKey = None) -> Answer:
    """Submit a job file: one job, or one for every point of its sweep. All are accepted or none."""
    return submission.submit(submission.specs_of(body, who, svc), who, svc, key, "job.submit")


@router.get("", response_model=JobPage)
def list_jobs(
    who: Reader,
    svc: Svc,
    state: States = [],  # noqa: B006 - FastAPI copies it
    tenant: QueryLine = None,
    user: QueryLine = None,
    name: QueryLine = None,
    group: QueryLine = None,
    text: QueryLine = None,
    since_s: TimeS = None,
    until_s: TimeS = None,
    sort: Sort = "-submitted",
    limit: Limit = USUAL_ROWS,
    cursor: Cursor = None,
) -> Answer:
    """List jobs of any state, newest first."""
    held_to = tenant_seen(who, tenant)
    where = JobFilter(
        states=split_states(state) or None,
        tenants=None if held_to is None else (held_to,),
        users=None if user is None else (user,),
        name=name,
        group_id=group,
        text=text,
        since_us=to_us(since_s),
        until_us=to_us(until_s),
        sort=sort,
    )
    with svc.database.read() as c:
        found = jobs.find(c, where, limit, cursor)
    return Answer(page([job_view(row) for row in found.items], found.next_cursor))


@router.get("/{job}", response_model=JobDetail)
def get_job(row: SeenJob, svc: Svc, slos: Slos) -> Answer:
    """Show one job, with its goals, the requests chosen for it, what it used, and how good predictions like its own
    were."""
    with svc.database.read() as c:
        source = row.forecast["source"] if row.forecast else None
        record = record_of(c, row.tenant, source, svc.clock.now_us()) if source else None
        context = svc.scheduler.context
        requests = requests_view(c, row, Peaks() if context is None else context.peaks)
        held_us = events.held_since(c, [row.id]).get(row.id) if row.state == JobState.HELD else None
    hangs, goals = hangs_view(svc.scheduler.hangs.warnings(row)), goals_view(row, slo_state(row, slos, svc))
    facts = {"run_record": record_view(record), "hang_warnings": hangs, "held_s": to_s(held_us)}
    return Answer(job_view(row) | goals | requests | facts)


@router.get("/{job}/source", response_model=JobSource)
def get_job_source(row: LoggedJob) -> Answer:
    """Show the job as it was accepted: command, environment, requests. For its owner."""
    return Answer({"spec": row.spec})


@router.patch("/{job}", response_model=ChangedJob)
def change_job(row: OwnedJob, body: ChangeRequest, who: Member, svc: Svc) -> Answer:
    """Change a pending or running job."""
    change = submission.change_of(body)
    svc.scheduler.update(row.id, change, who)
    svc.audit.record(who, "job.change", row.id, body.model_dump(exclude_none=True))
    return _now(row, svc, changed_view)


@router.post("/{job}/cancel", response_model=JobView)
def cancel_job(row: OwnedJob, who: Member, svc: Svc, body: CauseRequest | None = None) -> Answer:
    """Cancel a job."""
    cause = body.cause if body else ""
    svc.scheduler.cancel(row.id, who, cause or f"cancelled by {who.user}")
    svc.audit.record(who, "job.cancel", row.id, {"cause": cause})
    return _now(row, svc)


@router.post("/{job}/hold", response_model=JobView)
def hold_job(row: OwnedJob, who: Member, svc: Svc) -> Answer:
    """Keep a pending job from starting."""
    svc.scheduler.hold(row.id, who)
    svc.audit.record(who, "job.hold", row.id)
    return _now(row, svc)


@router.post("/{job}/release", response_model=JobView)
def release_job(row: OwnedJob, who: Member, svc: Svc) -> Answer:
    """Release a held job."""
    svc.scheduler.release(row.id, who)
    svc.audit.record(who, "job.release", row.id)
    return _now(row, svc)


@router.post("/{job}/resubmit", status_code=201, response_model=SubmissionAnswer)
def resubmit_job(row: OwnedJob, who: Member, svc: Svc, key: IdempotencyKey = None) -> Answer:
    """Submit the same job again, as a new one."""
    return submission.submit([submission.again(row)], who, svc, key, "job.resubmit")


def _now(row: JobRow, svc: Services, view: Callable[[JobRow], Plain] = job_view) -> Answer:
    with svc.database.read() as c:
        return Answer(view(jobs.get(c, row.id) or row))
