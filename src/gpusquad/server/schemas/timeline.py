"""Cards over time."""

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
    end_s: float | None = Field(description="null: still running")
    state: str = Field(description="How it ended, or the state of its job; of other tenants: running or over")
    share_ratio: float = Field(description="Fraction of each card; 1: the whole card")
    expected: End | None = Field(description="Predicted end of a running attempt")


class ReservationView(ApiView):
    """A reserved start of a pending job."""

    job: str | None = Field(description=_OTHERS)
    name: str | None
    tenant: str | None
    gpus: int
    start_s: float
    latest_s: float = Field(description="First reserved start, from pessimistic run times")
    end_s: float | None
    cards: list[str] = Field(description="Empty if only a number of cards is reserved")


class PlannedBar(ApiView):
    """A pending job as replaying the plan starts it. A forecast, not a reservation."""

    job: str | None = Field(description=_OTHERS)
    name: str | None
    tenant: str | None
    gpus: int
    position: int
    start_s: float
    start_high_s: float | None = Field(description="Start in nine of ten cases; null: not known")
    end_s: float | None
    end_high_s: float | None
    cards: list[str]


class TimelineView(ApiView):
    now_s: float
    from_s: float
    to_s: float
    bars: list[Bar]
    truncated: bool = Field(description="There are more bars than shown or read")
    reservations: list[ReservationView]
    planned: list[PlannedBar]
    planned_at_s: float | None = Field(
        description="When the plan was forecast; null: not yet, or the queue is too long"
    )
    planned_unknown: int = Field(description="Pending jobs that start after the last replay step")
    windows: list[WindowView]
