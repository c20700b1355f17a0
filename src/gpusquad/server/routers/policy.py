"""Scheduling policies and their revisions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import PolicyPreview
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import USUAL_ROWS, Limit, Svc
from gpusquad.server.permissions import Admin, Reader
from gpusquad.server.schemas.cluster import PolicyRequest, PolicyView, PreviewView, RevisionPage
from gpusquad.server.views import Plain, instant_s, page, policy_view
from gpusquad.store import policy

router = APIRouter(prefix="/policy", tags=["policy"])


@router.get("", response_model=PolicyView)
def get_policy(who: Reader, svc: Svc) -> Answer:
    """Show the policies in use, and since when."""
    return Answer(policy_view(svc.scheduler.policy_service.status(), who))


@router.put("", response_model=PolicyView)
def set_policy(body: PolicyRequest, who: Admin, svc: Svc) -> Answer:
    """Set other policies from the next cycle on. Running jobs continue."""
    settings = _settings(body)
    status = svc.scheduler.policy_service.set(settings, who, body.note)
    svc.divides.follow()
    svc.audit.record(who, "policy.set", str(status.revision), settings | {"note": body.note})
    return Answer(policy_view(status, who))


@router.get("/revisions", response_model=RevisionPage)
def list_revisions(_: Reader, svc: Svc, limit: Limit = USUAL_ROWS) -> Answer:
    """List all changes of the policies, newest first."""
    with svc.database.read() as c:
        rows = policy.all(c, limit)
    return Answer(page([
        {"revision": row.revision, "at_s": row.at_us / US_PER_S, "by": row.by, "settings": row.settings,
         "note": row.note}
        for row in rows
    ]))  # fmt: skip


@router.post("/preview", response_model=PreviewView)
async def preview_policy(body: PolicyRequest, _: Admin, svc: Svc) -> Answer:
    """Show what other policies would do to the current queue. Nothing changes."""
    settings = _settings(body)
    return Answer(_preview_view(await svc.slow.run(lambda: svc.scheduler.policy_service.preview(settings))))


def _settings(body: PolicyRequest) -> dict[str, Any]:
    settings = body.model_dump(exclude_none=True, exclude={"note"})
    if not settings:
        raise Invalid("body", "changes nothing", "set mode, order, plan, place, preemption, lanes or preemptible")
    return settings


def _preview_view(preview: PolicyPreview) -> Plain:
    return {
        "starts": list(preview.starts),
        "preempted": list(preview.preempted),
        "moved": [
            {"job": job, "before_s": instant_s(before_us), "after_s": instant_s(after_us)}
            for job, before_us, after_us in preview.moved
        ],
    }
