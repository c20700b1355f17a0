"""Accuracy of predicted run times over time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import QueryLine, Svc, TimeS, to_us
from gpusquad.server.permissions import Reader, tenant_seen
from gpusquad.server.routers.predictions import USUAL_US
from gpusquad.server.schemas.prediction_series import PredictionSeriesView
from gpusquad.server.services.prediction.accuracy import MAX_ROWS
from gpusquad.server.services.prediction.accuracy_series import lines, points, series
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services
from gpusquad.store import run_forecasts

router = APIRouter(tags=["predictions"])
MAX_POINTS = 2_000
Spans = Annotated[int, Query(ge=1, le=200, description="Number of points in time")]
Points = Annotated[int, Query(ge=0, le=MAX_POINTS, description="Predictions to draw, with actual run times")]


@router.get("/predictions/series", response_model=PredictionSeriesView)
async def get_prediction_series(
    who: Reader, svc: Svc, tenant: QueryLine = None, source: QueryLine = None, since_s: TimeS = None,
    spans: Spans = 30, points: Points = 0,
) -> Answer:  # fmt: skip
    """Show errors of predicted run times by tenant and source, their course over time, and single predictions with
    actual run times; by default of the last 30 days."""
    held_to, now_us, since_us = tenant_seen(who, tenant), svc.clock.now_us(), to_us(since_s)
    if since_us is None:
        since_us = max(0, now_us - USUAL_US)
    if since_us >= now_us:
        raise Invalid("since_s", "must be in the past")
    return Answer(await svc.slow.run(lambda: _series(svc, held_to, source, (since_us, now_us), spans, points)))


def _series(
    svc: Services, tenant: str | None, source: str | None, between: tuple[int, int], spans: int, most: int
) -> Plain:
    since_us, now_us = between
    with svc.database.read() as c:
        rows = run_forecasts.settled(c, since_us, tenant, source, limit=MAX_ROWS + 1)
    span_us, shown = max(1, -(-(now_us + 1 - since_us) // spans)), rows[:MAX_ROWS]
    return {
        "since_s": since_us / US_PER_S,
        "until_s": now_us / US_PER_S,
        "span_s": span_us / US_PER_S,
        "count": len(shown),
        "truncated": len(rows) > MAX_ROWS,
        "lines": lines(shown),
        "series": series(shown, since_us, span_us),
        "points": points(shown, most),
    }
