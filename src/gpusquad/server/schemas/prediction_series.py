"""Predicted run times against the truth, over time and by who and how."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class CrossLine(ApiView):
    """Of one tenant and one source. Only runs that ended by themselves are judged; null: there was none."""

    tenant: str
    source: str
    count: int
    cut: int = Field(description="Runs that something else ended")
    median_ratio: float | None = Field(description="Half of the predictions were this near, in parts of the truth")
    mean_error_s: float | None
    within_p50: float | None
    within_p90: float | None
    within_p99: float | None
    pinball_s: float | None
    bias: float | None = Field(description="Median of ln(truth / middle): above 0, runs take longer than said")


class SeriesPoint(ApiView):
    """Runs of one source that ended within a span; spans without any are left out."""

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
    high_s: float = Field(description="By then nine of ten should have ended")
    truth_s: float


class PredictionSeriesView(ApiView):
    since_s: float
    until_s: float
    span_s: float
    count: int = Field(description="Runs looked at: the newest 50,000 at most")
    truncated: bool = Field(description="There are more: the time before the first point is not looked at")
    lines: list[CrossLine]
    series: list[SeriesPoint]
    points: list[ForecastPoint] = Field(description="Evenly over the time; 2,000 at most")
