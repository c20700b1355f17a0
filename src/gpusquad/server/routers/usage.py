"""Usage by tenant, user or job."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter

from gpusquad.server.json_answer import Answer
from gpusquad.server.params import MAX_ROWS, Limit, Svc, TimeS, to_us
from gpusquad.server.permissions import Reader, tenant_seen
from gpusquad.server.schemas.cluster import UsagePage
from gpusquad.server.views import page
from gpusquad.store import attempts

router = APIRouter(tags=["usage"])
_S_PER_HOUR = 3600.0


@router.get("/usage", response_model=UsagePage)
def get_usage(
    who: Reader,
    svc: Svc,
    by: Literal["tenant", "user", "job"] = "tenant",
    since_s: TimeS = None,
    until_s: TimeS = None,
    limit: Limit = MAX_ROWS,
) -> Answer:
    """List GPU hours within an interval, largest first. Running jobs count up to now."""
    now_us, held_to = svc.clock.now_us(), tenant_seen(who, None)
    until_us = to_us(until_s)
    with svc.database.read() as c:
        rows = attempts.usage(
            c,
            by,
            to_us(since_s) or 0,
            now_us if until_us is None else until_us,
            now_us,
            None if held_to is None else (held_to,),
            limit,
        )
    return Answer(page([
        {"key": row.key, "tenant": row.tenant, "gpu_hours": row.gpu_s / _S_PER_HOUR, "jobs": row.jobs,
         "attempts": row.attempts}
        for row in rows
    ]))  # fmt: skip
