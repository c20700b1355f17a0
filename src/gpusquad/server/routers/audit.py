"""The audit log."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from gpusquad.model.units import US_PER_S
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import USUAL_ROWS, Cursor, Limit, QueryLine, Svc, TimeS, to_us
from gpusquad.server.permissions import Admin
from gpusquad.server.schemas.people import AuditPage
from gpusquad.server.views import Plain, page
from gpusquad.store import audit
from gpusquad.store.audit import AuditRow

router = APIRouter(tags=["audit"])


@router.get("/audit", response_model=AuditPage)
def list_audit(
    _: Admin,
    svc: Svc,
    actor: QueryLine = None,
    action: QueryLine = None,
    target: QueryLine = None,
    since_s: TimeS = None,
    until_s: TimeS = None,
    limit: Limit = USUAL_ROWS,
    cursor: Cursor = None,
) -> Answer:
    """List all changes, newest first."""
    with svc.database.read() as c:
        found = audit.find(
            c,
            actor=actor,
            action=action,
            target=target,
            since_us=to_us(since_s),
            until_us=to_us(until_s),
            limit=limit,
            cursor=cursor,
        )
    return Answer(page([_view(row) for row in found.items], found.next_cursor))


def _view(row: AuditRow) -> Plain:
    rows = asdict(row)
    return {"at_s": rows.pop("at_us") / US_PER_S} | rows
