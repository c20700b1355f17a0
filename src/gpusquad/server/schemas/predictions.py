"""Predicted and actual run times."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class ErrorLine(ApiView):
    """Of one tenant or one source. Only runs that ended by themselves count; null: there were none."""

    key: str
    count: int
    cut: int = Field(description="Runs that were ended early, whose full run time is unknown")
    median_ratio: float | None = Field(description="Median error relative to the actual run time")
    mean_error_s: float | None = Field(description="Mean distance of the median from the actual run time")
    within_p50: float | None = Field(description="Fraction that ended by then; one half if well calibrated")
    within_p90: float | None
    within_p99: float | None
    pinball_s: float | None = Field(description="Mean pinball loss over the levels; less is better")
    bias: float | None = Field(description="Median of ln(actual / median): above 0, runs take longer than predicted")


class CalibrationPoint(ApiView):
    """Of runs of one source, the fraction that ended by the value predicted at a level."""

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
    count: int = Field(description="Runs used: the newest 50,000 at most")
    tenants: list[ErrorLine]
    sources: list[ErrorLine]
    calibration: list[CalibrationPoint]
    points: list[PredictionPoint]
