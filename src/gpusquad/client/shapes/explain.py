"""Why a job waits, when it starts, and what a new one would meet."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from gpusquad.client.shapes.jobs import Reason, RunTime, RunTimeRecord, TaskPlace


class End(TypedDict):
    mid_s: float | None
    high_s: float | None
    source: str


class WhyAnswer(TypedDict):
    state: str
    position: int | None
    reasons: list[Reason]


class Accuracy(TypedDict):
    count: int
    within_ratio: float | None
    median_error_s: float | None


class WhenAnswer(TypedDict):
    state: NotRequired[str]
    start_s: float | None
    high_s: float | None
    promised_s: float | None
    run: RunTime | None
    run_record: NotRequired[RunTimeRecord | None]
    end: NotRequired[End | None]
    position: int | None
    accuracy: Accuracy | None


class Delay(TypedDict):
    job: str
    by_s: float


class WhatIfAnswer(TypedDict):
    refused: Reason | None
    starts_now: bool
    start_s: float | None
    high_s: float | None
    promised_s: float | None
    run: RunTime | None
    placement: list[TaskPlace]
    reasons: NotRequired[list[Reason]]
    """Everything that would keep it waiting."""
    delayed: list[Delay]
    preempted: list[str]
    others: NotRequired[int]
    """Jobs of other tenants that would be delayed or preempted."""
    jobs: NotRequired[int]
    """Jobs the file makes; the answer is about the first."""
    chosen: NotRequired[list[str]]
    warnings: NotRequired[list[str]]
