"""What a job should ask for, and the runs that say so."""

from __future__ import annotations

from typing import TypedDict


class AdviceLine(TypedDict):
    field: str
    value: float | str
    now: float | str | None
    change: bool
    why: str


class TimesWith(TypedDict):
    gpus: int
    low_s: float
    mid_s: float
    high_s: float
    efficiency_ratio: float
    source: str
    confidence: float


class PeakMemory(TypedDict):
    mid_bytes: int
    high_bytes: int
    source: str
    confidence: float


class CardUse(TypedDict):
    job: str
    busy_ratios: list[float]


class AlikeRuns(TypedDict):
    runs: int
    of: str
    jobs: list[str]
    uses: list[CardUse]


class Recommendation(TypedDict):
    advice: list[AdviceLine]
    times: list[TimesWith]
    memory: PeakMemory | None
    evidence: AlikeRuns | None
    notes: list[str]
    warnings: list[str]
    missing: list[str]
    jobs: int
