"""The queue: pending jobs in order, and running jobs."""

from __future__ import annotations

from fastapi import APIRouter

from gpusquad.core.transitions import JobState
from gpusquad.server.json_answer import Answer
from gpusquad.server.lookup import ids_in, rows_of
from gpusquad.server.params import MAX_ROWS, USUAL_ROWS, Limit, Offset, QueryLine, Svc
from gpusquad.server.permissions import Reader, tenant_seen
from gpusquad.server.schemas.jobs import QueuePage
from gpusquad.server.views import held_view, queued_view, running_view
from gpusquad.store import events, jobs
from gpusquad.store.jobs import UNFINISHED_STATES, JobFilter

router = APIRouter(tags=["queue"])
ON_CARDS = (JobState.STARTING, JobState.RUNNING, JobState.PREEMPTING, JobState.STOPPING, JobState.LOST)


@router.get("/queue", response_model=QueuePage)
def get_queue(
    who: Reader, svc: Svc, tenant: QueryLine = None, limit: Limit = USUAL_ROWS, cursor: Offset = None
) -> Answer:
    """List pending jobs in queue order, running jobs and jobs that the service holds. Positions count all tenants."""
    offset, held_to = int(cursor or 0), tenant_seen(who, tenant)
    # One more than requested shows whether there is another page.
    entries = svc.scheduler.queries.queue(offset, limit + 1, held_to)
    shown, tenants = entries[:limit], None if held_to is None else (held_to,)
    warnings = svc.scheduler.hangs.warnings
    ends = {} if offset else svc.scheduler.queries.ends()
    held = [] if offset else svc.scheduler.queries.held(limit, held_to)
    with svc.database.read() as c:
        on_cards = [] if offset else ids_in(c, ON_CARDS, held_to, MAX_ROWS)
        rows = rows_of(c, [entry.job_id for entry in (*shown, *held)] + on_cards)
        held_us = events.held_since(c, [one.job_id for one in held])
        counts = jobs.count_by_state(c, JobFilter(UNFINISHED_STATES, tenants))
    return Answer({
        "items": [queued_view(rows[entry.job_id], entry) for entry in shown if entry.job_id in rows],
        "running": [running_view(rows[one], ends.get(one), warnings(rows[one])) for one in on_cards],
        "held": [held_view(rows[one.job_id], one, held_us.get(one.job_id)) for one in held if one.job_id in rows],
        "counts": {state: counts.get(state, 0) for state in UNFINISHED_STATES},
        "next": str(offset + limit) if len(entries) > limit else None,
    })  # fmt: skip
