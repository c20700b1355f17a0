"""Inbox: notices about the caller's jobs, without any rule."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_TEXT
from gpusquad.model.units import US_PER_S
from gpusquad.server.json_answer import Answer
from gpusquad.server.notify.collect import ends_of
from gpusquad.server.params import USUAL_ROWS, Cursor, Limit, Svc
from gpusquad.server.permissions import Reader
from gpusquad.server.schemas.inbox import InboxPage, ReadRequest, ReadResult
from gpusquad.server.views import Plain, page
from gpusquad.store import inbox
from gpusquad.store.inbox import InboxRow

router = APIRouter(prefix="/inbox", tags=["notices"])


@router.get("", response_model=InboxPage)
def list_inbox(
    who: Reader, svc: Svc, unread: Annotated[bool, Query(description="Only unread entries")] = False,
    after: Annotated[int | None, Query(ge=0, le=2**53, description="Only entries with a larger id")] = None,
    job: Annotated[str | None, Query(max_length=MAX_TEXT, description="Only entries about this job (id) or its batch")]
    = None, limit: Limit = USUAL_ROWS, cursor: Cursor = None,
) -> Answer:  # fmt: skip
    """List the caller's inbox, newest first."""
    svc.notices.settle()
    with svc.database.read() as c:
        found = inbox.page(c, who.user, unread=unread, after=after, job=job, limit=limit, cursor=cursor)
        count = inbox.unread(c, who.user)
    return Answer(page([_entry_view(row) for row in found.items], found.next_cursor) | {"unread": count})


@router.post("/read", response_model=ReadResult)
def mark_read(body: ReadRequest, who: Reader, svc: Svc) -> Answer:
    """Mark entries of the caller's inbox as read."""
    if not body.ids and body.up_to is None:
        raise Invalid("ids", "or up_to is required", "give the ids of entries, or the id up to which all are read")
    with svc.database.write() as c:
        marked = inbox.mark_read(c, who.user, svc.clock.now_us(), ids=body.ids, up_to=body.up_to)
        count = inbox.unread(c, who.user)
    return Answer({"marked": marked, "unread": count})


def _entry_view(row: InboxRow) -> Plain:
    data = row.data or {}
    return {
        "id": row.id,
        "kind": row.kind,
        "job": row.job_id,
        "group": row.group_id,
        "name": data.get("name") or "",
        "state": data.get("state"),
        "reason": data.get("reason"),
        "count": row.count,
        "ends": ends_of(row),
        "jobs": data.get("jobs"),
        "failed": data.get("failed") or [],
        "title": row.title,
        "body": row.body,
        "first_s": row.first_us / US_PER_S,
        "at_s": row.at_us / US_PER_S,
        "read": row.read_us is not None,
    }
