"""How good predicted run times were."""

from __future__ import annotations

from typing import TypedDict


class PredictionErrors(TypedDict):
    """Of one tenant, or of one source. Only runs that ended by themselves are judged; None: there was none."""

    key: str
    count: int
    """Runs that are judged."""
    cut: int
    """Runs that something else ended: how long they would have taken nobody knows."""
    median_ratio: float | None
    """Half of the runs were this near to the middle of their prediction or nearer, in parts of the truth."""
    mean_error_s: float | None
    within_p50: float | None
    """Part that ended by then; with a good prediction a half."""
    within_p90: float | None
    within_p99: float | None
    pinball_s: float | None
    """The mean pinball loss over the levels: one number for how near and how honest. Less is better."""
    bias: float | None
    """The median of ln(truth / middle): above 0, runs take longer than said."""


class Calibration(TypedDict):
    """Of runs of one source, the part that ended by the value predicted at a level."""

    source: str
    level: float
    observed: float
    count: int


class PredictionPoint(TypedDict):
    """One prediction and what came of it."""

    source: str
    predicted_s: float
    truth_s: float


class Predictions(TypedDict):
    since_s: float
    count: int
    tenants: list[PredictionErrors]
    sources: list[PredictionErrors]
    calibration: list[Calibration]
    points: list[PredictionPoint]
