"""What workloads on one card cost each other."""

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
    sm_ratio: float = Field(description="Part of the SMs")
    speed_ratio: float = Field(description="Speed with them over that with all")


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
    solo: SoloView | None = Field(description="null: it was never measured alone")


class PairView(ApiView):
    """What a workload has left beside another, neither being restricted. Not the same the other way round."""

    own: str
    other: str
    speed_ratio: float = Field(description="Of its speed alone; 0: they do not fit together")
    slowdown: float | None = Field(description="Times as long as alone; null: they do not fit together")
    spread: float = Field(description="How far the truth usually is from the ratio: one standard deviation")
    source: Source = Field(description="learned: measured or predicted first, and corrected by what runs here")
    basis: str = Field(description="What it stands on: measured, rows and columns, features, default")
    watched_s: float = Field(description="How long such runs were watched")


class ModelErrors(ApiView):
    """|predicted - real| in parts of the real figure."""

    count: int
    median: float
    p90: float
    mean: float
    bias: float = Field(description="The mean with its sign: above 0, what was predicted is too fast")


class ErrorsView(ApiView):
    splits: ModelErrors | None = Field(description="Of the form that was fitted, on pairs with parts of the SMs")
    triples: ModelErrors | None = Field(description="Of what pairs foretell of three, in the way that is taken")
    running: ModelErrors | None = Field(description="Of measured or predicted pairs, against what ran here")
    words: str


class CardInterference(ApiView):
    """One model of card. Settings are not mixed: the one that counts is shown."""

    gpu: str
    driver: str | None
    memory_bytes: int | None = Field(description="Measured with so much of the card's memory; null: with all of it")
    measured_s: float | None = Field(description="null: nothing was measured, all is learned")
    workloads: list[WorkloadView]
    pairs: list[PairView] = Field(description="Every two of the workloads, both ways")
    errors: ErrorsView


class InterferenceView(ApiView):
    sharing: str | None = Field(description="How cards are shared here; null: nobody asks what neighbours cost")
    cards: list[CardInterference]
    truncated: bool = Field(description="There are more workloads than are shown: 64 a card at most")


class NeighbourView(ApiView):
    """Another job on the same card; of other tenants only that there is one, and what it costs."""

    job: str | None
    name: str | None
    user: str | None
    app: str | None
    sm_ratio: float | None = Field(description="Its part of the SMs; null: no limit")
    memory_bytes: int | None
    speed_ratio: float | None = Field(description="What this job has left beside it alone; null: not known")
    basis: str | None


class SharedCard(ApiView):
    card: str
    node: str
    gpu: str
    neighbours: list[NeighbourView]
    speed_ratio: float | None = Field(description="Expected beside all of them, over alone; null: not known")


class NeighboursView(ApiView):
    job: str
    cards: list[SharedCard] = Field(description="Empty: it is on no cards now")
    expected_ratio: float | None = Field(description="Of the slowest card: a gang is as fast as its slowest task")
    expected_slowdown: float | None
    observed_ratio: float | None = Field(
        description="Its steps a second since the company is the same, over those of such runs alone; null: not known"
    )
    observed_slowdown: float | None
    steps_per_s: float | None
    alone_steps_per_s: float | None
