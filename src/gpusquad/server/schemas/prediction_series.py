"""Predicted and actual run times over time, by tenant and source."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class CrossLine(ApiView):
    """Of one tenant and one source. Only runs that ended by themselves count; null: there were none."""

    tenant: str
    source: str
    count: int
    cut: int = Field(description="Runs that were ended early")
    median_ratio: float | None = Field(description="Median error relative to the actual run time")
    mean_error_s: float | None
    within_p50: float | None
    within_p90: float | None
    within_p99: float | None
    pinball_s: float | None
    bias: float | None = Field(description="Median of ln(actual / median): above 0, runs take longer than predicted")


class SeriesPoint(ApiView):
    """Runs of one source that ended within a span. Spans without runs are left out."""

    at_s: float
    source: str
    count: int
    median_ratio: float | None
    within_p90: float | None
    bias: float | None


class ForecastPoint(ApiView):
    job: str
    attempt: int
    tenant: str
    source: str
    ended_s: float
    predicted_s: float
    high_s: float = Field(description="Nine of ten should have ended by then")
    truth_s: float


class PredictionSeriesView(ApiView):
    since_s: float
    until_s: float
    span_s: float
    count: int = Field(description="Runs used: the newest 50,000 at most")
    truncated: bool = Field(description="There are more: the time before the first point is not covered")
    lines: list[CrossLine]
    series: list[SeriesPoint]
    points: list[ForecastPoint] = Field(description="Evenly spread over time; 2,000 at most")
