"""Health and metrics. Outside the API's prefix and without a token."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpusquad.server.errors import Unavailable
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc
from gpusquad.server.permissions import caller_of, check_admin
from gpusquad.server.schemas.cluster import HealthView

router = APIRouter(tags=["health"])
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "For Prometheus"}
}


@router.get("/healthz", response_model=HealthView)
async def healthz() -> Answer:
    """Whether the process answers."""
    return Answer({"ok": True, "reason": ""})


@router.get("/readyz", response_model=HealthView)
def readyz(svc: Svc) -> Answer:
    """Whether jobs are accepted and scheduled."""
    is_ready, reason = svc.scheduler.ready()
    if not is_ready:
        raise Unavailable(reason)
    return Answer({"ok": True, "reason": ""})


@router.get("/metrics", response_class=Response, responses=_TEXT)
def metrics(request: Request, svc: Svc) -> Response:
    """Open to this machine. From elsewhere for administrators only, because the metrics name tenants."""
    if not _is_local(request):
        check_admin(caller_of(request).who)
    page, content_type = svc.metrics.render(request.headers.get("accept", ""))
    return Response(page, headers={"Content-Type": content_type})


def _is_local(request: Request) -> bool:
    """A request through a proxy on this machine comes from elsewhere."""
    if "x-forwarded-for" in request.headers or "forwarded" in request.headers:
        return False
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False
