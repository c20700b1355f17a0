"""Predicted run times against the truth."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class ErrorLine(ApiView):
    """Of one tenant, or of one source. Only runs that ended by themselves are judged; null: there was none."""

    key: str
    count: int
    cut: int = Field(description="Runs that something else ended: how long they would have taken nobody knows")
    median_ratio: float | None = Field(description="Half of the predictions were this near, in parts of the truth")
    mean_error_s: float | None = Field(description="Mean distance of the middle from the truth")
    within_p50: float | None = Field(description="Part that ended by then; with a good prediction a half")
    within_p90: float | None
    within_p99: float | None
    pinball_s: float | None = Field(description="Mean pinball loss over the levels; less is better")
    bias: float | None = Field(description="Median of ln(truth / middle): above 0, runs take longer than said")


class CalibrationPoint(ApiView):
    """Of runs of one source, the part that ended by the value predicted at a level."""

    source: str
    level: float
    observed: float
    count: int


class PredictionPoint(ApiView):
    source: str
    predicted_s: float
    truth_s: float


class PredictionsView(ApiView):
    since_s: float
    count: int = Field(description="Runs looked at: the newest 50,000 at most")
    tenants: list[ErrorLine]
    sources: list[ErrorLine]
    calibration: list[CalibrationPoint]
    points: list[PredictionPoint]
