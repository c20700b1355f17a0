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


class LateCause(ApiView):
    cause: str = Field(
        description="guest_overstayed, ahead_overran, arrived_ahead, requeued_ahead, capacity_lost, policy_changed, "
        "changed, restarted or other"
    )
    count: int
    median_s: float | None
    worst_s: float | None


class LateStart(ApiView):
    job: str
    name: str
    tenant: str
    user: str
    promised_s: float | None
    started_s: float | None
    late_s: float
    head_delay_s: float | None = Field(description="True head delay; null: it was not followed as the head")
    cause: str
    cause_job: str | None = Field(description="The job that delayed it most; null: none, or not visible to the caller")
    cause_user: str | None
    cause_tenant: str | None


class HeadDelaysView(ApiView):
    """How much later heads of the queue started than if no job behind them had started before them."""

    count: int
    delayed: int
    median_s: float | None = Field(description="Of the delayed ones")
    worst_s: float | None


class StartsView(ApiView):
    """Starts of jobs that had a reservation, compared with the start that was promised first."""

    count: int
    kept: int
    late: int = Field(description="By more than a second")
    median_s: float | None = Field(description="How late, of the late ones")
    worst_s: float | None
    causes: list[LateCause]
    latest: list[LateStart] = Field(description="The latest starts, at most 20")
    heads: HeadDelaysView


class WaitErrors(ApiView):
    """Accuracy of the first start forecast of jobs that waited. null: no such job."""

    key: str = Field(description="A tenant; empty: all")
    count: int
    within_10min: float | None = Field(description="Fraction that started within ten minutes of the forecast")
    within_factor_2: float | None = Field(description="Fraction that waited half to twice as long as forecast")
    within_p50: float | None = Field(description="Fraction that started by the P50; ideal: 0.5")
    within_p90: float | None = Field(description="Fraction that started by the P90, where it was known; ideal: 0.9")
    median_error_s: float | None
    median_wait_s: float | None


class WaitsView(ApiView):
    total: WaitErrors
    tenants: list[WaitErrors] = Field(description="Largest first")


class PredictionsView(ApiView):
    since_s: float
    count: int = Field(description="Runs used: the newest 50,000 at most")
    tenants: list[ErrorLine]
    sources: list[ErrorLine]
    calibration: list[CalibrationPoint]
    points: list[PredictionPoint]
    starts: StartsView
    waits: WaitsView
