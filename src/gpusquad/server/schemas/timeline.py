"""A picture of cards over time."""

from __future__ import annotations

from pydantic import Field

from gpusquad.server.schemas.base import ApiView
from gpusquad.server.schemas.cluster import WindowView
from gpusquad.server.schemas.jobs import End

_OTHERS = "null: a job of another tenant"


class Bar(ApiView):
    """One attempt of a job on its cards."""

    job: str | None = Field(description=_OTHERS)
    name: str | None
    tenant: str | None
    user: str | None
    attempt: int
    cards: list[str]
    start_s: float
    end_s: float | None = Field(description="null: it is on its cards")
    state: str = Field(description="How it ended, or the state of its job; of other tenants: running or over")
    share_ratio: float = Field(description="What it was given of each card; 1: the whole of it")
    expected: End | None = Field(description="When one that runs is expected to end")


class ReservationView(ApiView):
    """A start that was promised to a job that waits."""

    job: str | None = Field(description=_OTHERS)
    name: str | None
    tenant: str | None
    gpus: int
    start_s: float
    latest_s: float = Field(description="As it was first promised, from pessimistic run times")
    end_s: float | None
    cards: list[str] = Field(description="Empty while counting cards is enough")


class PlannedBar(ApiView):
    """A job that waits, as the plan replayed forward would start it. A forecast, not a promise."""

    job: str | None = Field(description=_OTHERS)
    name: str | None
    tenant: str | None
    gpus: int
    position: int
    start_s: float
    start_high_s: float | None = Field(description="If every gang needs the high end of its run time")
    end_s: float | None
    end_high_s: float | None
    cards: list[str]


class TimelineView(ApiView):
    now_s: float
    from_s: float
    to_s: float
    bars: list[Bar]
    truncated: bool = Field(description="There are more bars than are shown, or than were looked at")
    reservations: list[ReservationView]
    planned: list[PlannedBar]
    planned_at_s: float | None = Field(description="When the plan was worked out; null: not yet, or too many wait")
    planned_unknown: int = Field(description="Jobs that wait and start later than was looked ahead")
    windows: list[WindowView]
