"""What a job should ask for."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class AdviceLine(ApiView):
    """One field of the job file."""

    field: str
    value: int | float | str
    now: int | float | str | None = Field(description="What the file says; null: nothing")
    change: bool = Field(description="Whether it is worth changing")
    why: str


class TimesView(ApiView):
    """The run time with so many GPUs."""

    gpus: int
    low_s: float = Field(description="One run of ten is over by then")
    mid_s: float
    high_s: float = Field(description="Nine runs of ten are over by then")
    efficiency_ratio: float = Field(description="What each GPU brings, against one alone")
    source: str
    confidence: float


class PeakView(ApiView):
    """The most that one card will hold."""

    mid_bytes: int
    high_bytes: int = Field(description="Nine runs of ten hold at most this")
    source: str
    confidence: float


class UseView(ApiView):
    """How busy a run kept each of its cards."""

    job: str
    busy_ratios: list[float]


class EvidenceView(ApiView):
    """The runs that were gone by."""

    runs: int
    of: str
    jobs: list[str] = Field(description="The latest of them")
    uses: list[UseView]


class RecommendView(ApiView):
    advice: list[AdviceLine]
    times: list[TimesView]
    memory: PeakView | None
    evidence: EvidenceView | None = Field(description="Null: no run of that kind is known")
    notes: list[str]
    warnings: list[str]
    missing: list[str] = Field(description="What would give evidence where there is none")
    jobs: int = Field(description="Jobs the file makes; the answer is about the first")
