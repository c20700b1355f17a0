"""Interference between workloads on one card."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpusquad.server.schemas.base import ApiView

Source = Literal["measured", "learned", "predicted"]


class IntervalView(ApiView):
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    repeats: int


class CurvePoint(ApiView):
    sm_ratio: float = Field(description="Fraction of the SMs")
    speed_ratio: float = Field(description="Speed with these SMs over speed with all")


class SoloView(ApiView):
    """A workload alone on a card."""

    steps_per_s: IntervalView
    curve: list[CurvePoint]
    utilisation_ratio: float
    bandwidth_ratio: float
    memory_bytes: int
    power_w: float


class WorkloadView(ApiView):
    name: str
    solo: SoloView | None = Field(description="null: never measured alone")


class PairView(ApiView):
    """Rate of a workload beside another, both unrestricted. Not symmetric."""

    own: str
    other: str
    speed_ratio: float = Field(description="Speed beside it over speed alone; 0: they do not fit together")
    slowdown: float | None = Field(description="Time over time alone; null: they do not fit together")
    spread: float = Field(description="Usual error of the ratio: one standard deviation")
    source: Source = Field(description="learned: measured or predicted, then corrected by runs here")
    basis: str = Field(description="Basis of the value: measured, rows and columns, features, default")
    watched_s: float = Field(description="Observed time of such runs")


class ModelErrors(ApiView):
    """|predicted - actual| relative to the actual value."""

    count: int
    median: float
    p90: float
    mean: float
    bias: float = Field(description="Signed mean: above 0, the prediction is too fast")


class ErrorsView(ApiView):
    splits: ModelErrors | None = Field(description="Of the fitted model, on pairs with SM partitions")
    triples: ModelErrors | None = Field(description="Of predicting three workloads from pairs, by the method in use")
    running: ModelErrors | None = Field(description="Of measured or predicted pairs, against runs here")
    words: str


class CardInterference(ApiView):
    """One card model. Measurement settings are not mixed: the one in use is shown."""

    gpu: str
    driver: str | None
    memory_bytes: int | None = Field(description="Measured with this much card memory; null: all of it")
    measured_s: float | None = Field(description="null: not measured, only learned")
    workloads: list[WorkloadView]
    pairs: list[PairView] = Field(description="All pairs of workloads, in both directions")
    errors: ErrorsView


class InterferenceView(ApiView):
    sharing: str | None = Field(description="How cards are shared here; null: interference is not used")
    cards: list[CardInterference]
    truncated: bool = Field(description="There are more workloads than shown: at most 64 per card")


class NeighbourView(ApiView):
    """Another job on the same card; of other tenants only that there is one, and its effect."""

    job: str | None
    name: str | None
    user: str | None
    app: str | None
    sm_ratio: float | None = Field(description="Its fraction of the SMs; null: no limit")
    memory_bytes: int | None
    speed_ratio: float | None = Field(description="Rate of this job beside it alone; null: unknown")
    basis: str | None


class SharedCard(ApiView):
    card: str
    node: str
    gpu: str
    neighbours: list[NeighbourView]
    speed_ratio: float | None = Field(description="Predicted rate beside all of them; null: unknown")


class NeighboursView(ApiView):
    job: str
    cards: list[SharedCard] = Field(description="Empty: on no cards now")
    expected_ratio: float | None = Field(description="Of the slowest card: a gang is as fast as its slowest task")
    expected_slowdown: float | None
    observed_ratio: float | None = Field(
        description="Its step rate since its neighbours last changed, over that of such runs alone; null: unknown"
    )
    observed_slowdown: float | None
    steps_per_s: float | None
    alone_steps_per_s: float | None
