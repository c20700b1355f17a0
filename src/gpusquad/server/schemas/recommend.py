"""What a job should request."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class AdviceLine(ApiView):
    """One field of the job file."""

    field: str
    value: int | float | str
    now: int | float | str | None = Field(description="Value in the file; null: none")
    change: bool = Field(description="Whether it is worth changing")
    why: str


class TimesView(ApiView):
    """Run time with this number of GPUs."""

    gpus: int
    low_s: float = Field(description="One run of ten has ended by then")
    mid_s: float
    high_s: float = Field(description="Nine runs of ten have ended by then")
    efficiency_ratio: float = Field(description="Speedup per GPU, relative to one GPU")
    source: str
    confidence: float


class PeakView(ApiView):
    """Predicted peak memory on one card."""

    mid_bytes: int
    high_bytes: int = Field(description="Nine runs of ten hold at most this")
    source: str
    confidence: float


class UseView(ApiView):
    """Utilisation of each card by a run."""

    job: str
    busy_ratios: list[float]


class EvidenceView(ApiView):
    """Runs used as evidence."""

    runs: int
    of: str
    jobs: list[str] = Field(description="The latest of them")
    uses: list[UseView]


class RecommendView(ApiView):
    advice: list[AdviceLine]
    times: list[TimesView]
    memory: PeakView | None
    evidence: EvidenceView | None = Field(description="null: no such run is known")
    notes: list[str]
    warnings: list[str]
    missing: list[str] = Field(description="What would give evidence where there is none")
    jobs: int = Field(description="Number of jobs in the file; the answer is about the first")
