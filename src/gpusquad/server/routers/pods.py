"""Pods of a cluster and their jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.lookup import job_seen
from gpusquad.server.params import Svc
from gpusquad.server.permissions import Reader
from gpusquad.server.schemas.jobs import JobView
from gpusquad.server.views import job_view

router = APIRouter(prefix="/pods", tags=["answers"])
_NAME = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
Namespace = Annotated[str, Path(max_length=63, pattern=_NAME)]
PodName = Annotated[str, Path(max_length=253, pattern=_NAME)]


@router.get("/{namespace}/{pod}/job", response_model=JobView)
def job_of_pod(namespace: Namespace, pod: PodName, who: Reader, svc: Svc) -> Answer:
    """Show the job of a pod. There is none while its gang is incomplete, or if the pod cannot be parsed."""
    job_id = svc.pods.job_of_pod(namespace, pod) if svc.pods is not None else ""
    if not job_id:
        raise NotFound(
            f"pod {namespace}/{pod} belongs to no job", field="pod", cure="its events show what it waits for"
        )
    with svc.database.read() as c:
        return Answer(job_view(job_seen(c, job_id, who)))
