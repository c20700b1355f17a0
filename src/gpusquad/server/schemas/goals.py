"""How far goals are met."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class SloTargets(ApiView):
    """null: that is no part of the goal."""

    deadline_s: float | None = Field(description="The instant")
    latency_s: float | None
    throughput_per_s: float | None
    availability_ratio: float | None


class JobGoal(ApiView):
    job: str
    name: str
    tenant: str
    state: str
    goal: SloTargets
    deadline_met: bool | None = Field(description="null: none, or it is still to come")
    attainment_ratio: float | None = Field(
        description="How far a service's goals are met now, by whoever divides its card; null: nobody does"
    )
    weight: float | None = Field(description="What it counts for beside its neighbours, where its card is divided")


class TenantGoals(ApiView):
    tenant: str
    weight: float | None = Field(description="Of the tenant; null: it is gone")
    jobs: int = Field(description="With a goal, not over or ended within the time")
    deadlines_met: int
    deadlines_missed: int
    deadline_ratio: float | None = Field(description="Met of those judged; null: none was")
    attainment_ratio: float | None = Field(description="Mean of its services now; null: none is told of")


class DeadlinePoint(ApiView):
    """Deadlines of a tenant that were met or missed within a span."""

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
    """What decided from then on."""

    at_s: float
    revision: int
    mode: str | None
    settings: dict[str, Any]


class GoalsView(ApiView):
    since_s: float
    until_s: float
    span_s: float = Field(description="Of the points of deadlines")
    tenants: list[TenantGoals]
    jobs: list[JobGoal] = Field(description="1,000 at most, those that are not over first")
    deadlines: list[DeadlinePoint]
    attainment: list[AttainmentPoint] = Field(
        description="Of services, as seen while somebody asked: not on record, 20,000 at most"
    )
    policies: list[PolicyPoint]
    truncated: bool
