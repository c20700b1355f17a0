"""Why a job is pending, when it starts, its events, and what-if queries."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Query

from gpusquad.core.explain.passed import Passed
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import WhatIfAnswer, WhenAnswer, Who, WhyAnswer
from gpusquad.server.api_errors import reason_view
from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.lookup import ids_seen
from gpusquad.server.params import MAX_ROWS, Limit, Svc
from gpusquad.server.permissions import Member, Reader, may_read_logs
from gpusquad.server.routers.jobs import SeenJob
from gpusquad.server.routers.recommend import settled_as
from gpusquad.server.schemas.jobs import FileRequest, Story, WhatIfView, WhenView, WhyView
from gpusquad.server.services.jobs.advice import Note
from gpusquad.server.services.jobs.rights import grant_of
from gpusquad.server.submission import notes_view, specs_of
from gpusquad.server.views import (
    Plain,
    end_view,
    event_view,
    hangs_view,
    instant_s,
    page,
    places_view,
    record_view,
    run_view,
)
from gpusquad.server.wiring import Services
from gpusquad.spec.model import JobSpec
from gpusquad.store import events
from gpusquad.store.jobs import FINAL_STATES, JobRow

router = APIRouter(tags=["answers"])


@router.get("/jobs/{job}/why", response_model=WhyView)
async def why_job(row: SeenJob, svc: Svc) -> Answer:
    """List all reasons why a job is pending, and what hang detection warns about if it runs."""
    return Answer(await svc.slow.run(lambda: _why(row, svc)))


@router.get("/jobs/{job}/when", response_model=WhenView)
async def when_job(row: SeenJob, svc: Svc) -> Answer:
    """Forecast the start and predict the run time of a job, as ranges, with the accuracy of such forecasts."""
    return Answer(await svc.slow.run(lambda: _when(row, svc)))


@router.post("/whatif", response_model=WhatIfView)
async def what_if(body: FileRequest, who: Member, svc: Svc) -> Answer:
    """Show what would happen to a job submitted now. Nothing is submitted."""
    return Answer(await svc.slow.run(lambda: _what_if(body, who, svc)))


@router.get("/jobs/{job}/story", response_model=Story)
def job_story(
    row: SeenJob, who: Reader, svc: Svc, limit: Limit = MAX_ROWS, cursor: Annotated[int, Query(ge=0, le=2**53)] = 0
) -> Answer:
    """List the events of a job, oldest first."""
    with svc.database.read() as c:
        found = events.of_job(c, row.id, cursor, limit + 1)
    more = len(found) > limit
    shown = [event_view(one, private=may_read_logs(who, row)) for one in found[:limit]]
    return Answer(page(shown, str(found[limit - 1].id) if more else None))


def _why(row: JobRow, svc: Services) -> Plain:
    answer = WhyAnswer(None, ())
    if row.state not in FINAL_STATES:
        with suppress(NotFound):  # it has just ended
            answer = svc.scheduler.queries.why(row.id)
    with svc.database.read() as c:
        passed = [_passed_view(one, grant_of(c, one.job, one.by)) for one in answer.passed]
    return {
        "state": str(row.state),
        "position": answer.position,
        "reasons": [reason_view(reason) for reason in answer.reasons],
        "passed": passed,
        "hang_warnings": hangs_view(svc.scheduler.hangs.warnings(row)),
    }


def _passed_view(passed: Passed, granted: str) -> Plain:
    job, right = passed.job, f"{passed.by}{': ' if passed.by == 'fair share' else ' '}{passed.value}".rstrip()
    went = "started first" if passed.is_running else "is ahead"
    later = "submitted later" if job.held_until_us is None else "eligible later"
    return {
        "job": job.id, "user": job.user, "tenant": job.tenant, "running": passed.is_running, "by": passed.by,
        "value": passed.value, "granted": granted,
        "message": f"{job.id} of {job.user or 'unknown'} (tenant {job.tenant}), {later}, {went} by {right}"
        + (f", {granted}" if granted else ""),
    }  # fmt: skip


def _when(row: JobRow, svc: Services) -> Plain:
    answer = WhenAnswer(None, row.started_us, row.started_us, None, None, None)
    if row.state not in FINAL_STATES:
        with suppress(NotFound):
            answer = svc.scheduler.queries.when(row.id)
    accuracy = answer.accuracy
    return {
        "state": str(row.state),
        "start_s": instant_s(answer.start_us),
        "high_s": instant_s(answer.high_us),
        "promised_s": instant_s(answer.promised_us),
        "run": run_view(answer.forecast, (row.forecast or {}).get("confidence")),
        "run_record": record_view(answer.record),
        "end": end_view(answer.end),
        "position": answer.position,
        "accuracy": None
        if accuracy is None
        else {
            "count": accuracy.count,
            "within_ratio": accuracy.within_ratio,
            "median_error_s": accuracy.median_error_s,
            "median_late_s": accuracy.median_late_s,
        },
    }


def _what_if(body: FileRequest, who: Who, svc: Services) -> Plain:
    specs = specs_of(body, who, svc)
    answer = svc.scheduler.queries.what_if(specs[0], who)
    found = {
        "refused": None if answer.refused is None else reason_view(answer.refused),
        "starts_now": answer.starts_now,
        "start_s": instant_s(answer.start_us),
        "high_s": instant_s(answer.high_us),
        "promised_s": instant_s(answer.promised_us),
        "run": run_view(answer.forecast),
        "placement": places_view(answer.placement),
        "reasons": [reason_view(reason) for reason in answer.reasons],
        "jobs": len(specs),
        **notes_view([*settled_as(specs[0], who, svc).notes, *_without_estimator(specs[0])]),
    }
    return found | _affected(answer, who, svc)


def _without_estimator(spec: JobSpec) -> list[Note]:
    if spec.expect is None or spec.expect.by is None:
        return []
    return [Note("warned", "its estimator (expect.by) runs first when it is submitted; this is without its answer")]


def _affected(answer: WhatIfAnswer, who: Who, svc: Services) -> Plain:
    """Jobs of other tenants are counted, not named."""
    named = {job for job, _ in answer.delayed} | set(answer.preempted)
    with svc.database.read() as c:
        seen = ids_seen(c, named, who)
    return {
        "delayed": [{"job": job, "by_s": by_us / US_PER_S} for job, by_us in answer.delayed if job in seen],
        "preempted": [job for job in answer.preempted if job in seen],
        "others": len(named - seen),
    }
