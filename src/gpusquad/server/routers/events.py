"""Stream of job events."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from gpusquad.server.event_follow import follow_events
from gpusquad.server.keepalive import stream
from gpusquad.server.params import Svc
from gpusquad.server.permissions import Reader, tenant_seen

router = APIRouter(tags=["events"])
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "Events of the kind job"}
}


@router.get("/events", response_class=Response, responses=_STREAM)
async def stream_events(
    request: Request,
    who: Reader,
    svc: Svc,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="Last known event; none: only new events")] = None,
    last_event_id: Annotated[
        str | None, Header(pattern=r"^[0-9]{1,15}$", description="The same, after a reconnect")
    ] = None,
) -> Response:
    """Stream all events of all jobs that the caller may see."""
    begin = after if last_event_id is None else int(last_event_id)
    tenant = tenant_seen(who, None)
    return stream(request, svc, lambda pulse: follow_events(svc, tenant, begin, pulse))
