"""Accuracy of predicted run times, of start forecasts and of promised starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Who
from gpusquad.server.errors import NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import QueryLine, Svc, TimeS, to_us
from gpusquad.server.permissions import Reader, tenant_seen
from gpusquad.server.schemas.predictions import PredictionsView
from gpusquad.server.services.prediction.accuracy import MAX_ROWS, report
from gpusquad.server.services.prediction.start_accuracy import wait_errors
from gpusquad.server.services.queries.start_report import start_report
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services
from gpusquad.store import people, promises, run_forecasts, start_forecasts
from gpusquad.store.start_forecasts import StartForecastRow

router = APIRouter(tags=["predictions"])
MAX_POINTS = 5000
USUAL_US = 30 * 86_400 * US_PER_S
Points = Annotated[int, Query(ge=0, le=MAX_POINTS, description="Predictions to draw, with actual run times")]


@router.get("/predictions", response_model=PredictionsView)
async def get_predictions(
    who: Reader, svc: Svc, tenant: QueryLine = None, since_s: TimeS = None, points: Points = 0
) -> Answer:
    """Show errors and calibration of predicted run times, by tenant and by source, the accuracy of start forecasts, and
    promised starts with the actual ones; by default of the last 30 days."""
    held_to = tenant_seen(who, tenant)
    if tenant is not None:
        await svc.slow.run(lambda: _check_tenant(svc, tenant))
    since_us = to_us(since_s)
    if since_us is None:
        since_us = max(0, svc.clock.now_us() - USUAL_US)
    return Answer(await svc.slow.run(lambda: _predictions(svc, who, held_to, since_us, points)))


def _check_tenant(svc: Services, tenant: str) -> None:
    """Refuse a name that no tenant has or had: its empty report would look like one without runs."""
    with svc.database.read() as c:
        if people.tenant(c, tenant) is None and not run_forecasts.settled(c, 0, tenant, limit=1):
            raise NotFound(f"there is no tenant {tenant!r}", field="tenant", cure="gpusquad tenant list shows them")


def _predictions(svc: Services, who: Who, tenant: str | None, since_us: int, points: int) -> Plain:
    with svc.database.read() as c:
        rows = run_forecasts.settled(c, since_us, tenant, limit=MAX_ROWS)
        promised = promises.settled(c, since_us, tenant, limit=MAX_ROWS)
        waited = start_forecasts.settled(c, since_us, tenant, MAX_ROWS)
    made = report(rows, points)
    return {
        "since_s": since_us / US_PER_S,
        "count": made.rows,
        "tenants": list(made.tenants),
        "sources": list(made.sources),
        "calibration": list(made.calibration),
        "points": list(made.points),
        "starts": start_report(promised, who),
        "waits": _waits(waited),
    }


def _waits(rows: Sequence[StartForecastRow]) -> Plain:
    by_tenant: dict[str, list[StartForecastRow]] = {}
    for row in rows:
        by_tenant.setdefault(row.tenant, []).append(row)
    ordered = sorted(by_tenant.items(), key=lambda item: (-len(item[1]), item[0]))
    return {"total": wait_errors("", rows), "tenants": [wait_errors(tenant, own) for tenant, own in ordered]}
