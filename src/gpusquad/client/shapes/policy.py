"""The policies in force, those before them, and what others would change."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class Preemption(TypedDict):
    by: str
    min_run_s: NotRequired[float]
    most_per_job: NotRequired[int]


class PolicyView(TypedDict):
    revision: int
    mode: str
    order: str
    plan: str
    place: str
    divide: NotRequired[str]
    """How shared cards are divided that have no setting of their own."""
    preemption: Preemption
    modes: list[str]
    since_s: float
    by: str
    note: NotRequired[str]


class Revision(TypedDict):
    revision: int
    at_s: float
    by: str
    settings: dict[str, Any]
    note: str


class MovedStart(TypedDict):
    job: str
    before_s: float | None
    after_s: float | None


class PolicyPreview(TypedDict):
    starts: list[str]
    preempted: list[str]
    moved: list[MovedStart]
