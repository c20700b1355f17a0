"""SLO attainment."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class SloTargets(ApiView):
    """null: not part of the SLO."""

    deadline_s: float | None = Field(description="As a time")
    latency_s: float | None
    throughput_per_s: float | None
    availability_ratio: float | None


class JobGoal(ApiView):
    job: str
    name: str
    tenant: str
    state: str
    goal: SloTargets
    deadline_met: bool | None = Field(description="null: none, or in the future")
    attainment_ratio: float | None = Field(
        description="Current attainment of a service's SLO, by the card daemon; null: not divided"
    )
    weight: float | None = Field(description="Weight among its neighbours, if its card is divided")


class TenantGoals(ApiView):
    tenant: str
    weight: float | None = Field(description="Of the tenant; null: deleted")
    jobs: int = Field(description="Jobs with an SLO, unfinished or ended within the time")
    deadlines_met: int
    deadlines_missed: int
    deadline_ratio: float | None = Field(description="Met deadlines of those judged; null: none judged")
    attainment_ratio: float | None = Field(description="Current mean of its services; null: none reported")


class DeadlinePoint(ApiView):
    """Deadlines of a tenant met or missed within a span."""

    at_s: float
    tenant: str
    met: int
    missed: int


class AttainmentPoint(ApiView):
    at_s: float
    job: str
    attainment_ratio: float | None
    weight: float | None


class PolicyPoint(ApiView):
    """Policies in use from then on."""

    at_s: float
    revision: int
    mode: str | None
    settings: dict[str, Any]


class GoalsView(ApiView):
    since_s: float
    until_s: float
    span_s: float = Field(description="Length of the spans of deadlines")
    tenants: list[TenantGoals]
    jobs: list[JobGoal] = Field(description="At most 1,000, unfinished ones first")
    deadlines: list[DeadlinePoint]
    attainment: list[AttainmentPoint] = Field(
        description="Of services, as observed while requested: not stored, at most 20,000"
    )
    policies: list[PolicyPoint]
    truncated: bool
