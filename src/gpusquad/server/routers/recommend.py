"""Advice on what a job should request."""

from __future__ import annotations

from fastapi import APIRouter

from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles, certain
from gpusquad.predict.offline_estimate import expected_run
from gpusquad.server.answers import Who
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.permissions import Member, tenant_used
from gpusquad.server.recommendation import recommend_view
from gpusquad.server.schemas.jobs import FileRequest
from gpusquad.server.schemas.recommend import RecommendView
from gpusquad.server.services.jobs.advice import ResolvedJob
from gpusquad.server.submission import specs_of
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services
from gpusquad.spec.auto import auto_fields
from gpusquad.spec.convert import to_job
from gpusquad.spec.model import JobSpec

router = APIRouter(tags=["answers"])


@router.post("/recommend", response_model=RecommendView)
async def recommend(body: FileRequest, who: Member, svc: Svc) -> Answer:
    """Recommend what a job should request from similar past runs, with run times for several numbers of GPUs and
    reasons."""
    return Answer(await svc.slow.run(lambda: _recommend(body, who, svc)))


def settled_as(spec: JobSpec, who: Who, svc: Services) -> ResolvedJob:
    """With the values it would get if it were submitted now."""
    return svc.advice.settle([spec], [_job(spec, who, svc)])[0]


def _recommend(body: FileRequest, who: Who, svc: Services) -> Plain:
    specs = specs_of(body, who, svc)
    spec = specs[0]
    job = _job(spec, who, svc)
    found = svc.advice.recommend(job, _run(job), is_open="gpus" in auto_fields(spec))
    warnings = [note.text for note in settled_as(spec, who, svc).notes if note.kind == "warned"]
    return recommend_view(spec, found) | {"warnings": warnings, "jobs": len(specs)}


def _job(spec: JobSpec, who: Who, svc: Services) -> Job:
    return to_job(spec, "-", svc.clock.now_us(), tenant_used(who, spec.tenant), who.user)


def _run(job: Job) -> Quantiles | None:
    """Run time given in the job file."""
    if (expected := expected_run(job)) is not None:
        return expected
    return certain(job.estimate_us, "user", 0.1) if job.estimate_us else None
