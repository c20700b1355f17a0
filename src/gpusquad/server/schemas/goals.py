"""Answer of ``GET /goals``: SLO targets, deadlines met or missed, and attainment over time."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpusquad.server.schemas.base import ApiView


class SloTargets(ApiView):
    """Targets of a job's SLO; null: not part of it."""

    deadline_s: float | None = Field(description="Unix time")
    latency_s: float | None
    throughput_per_s: float | None
    availability_ratio: float | None


class JobGoal(ApiView):
    """A job with an SLO."""

    job: str
    name: str
    tenant: str
    state: str
    goal: SloTargets
    deadline_met: bool | None = Field(description="null: no deadline, or not reached yet")
    attainment_ratio: float | None = Field(
        description="Current attainment of a service's SLO, as the card daemon reports it; null: unknown, because "
        "nobody reports it or its card is not shared"
    )
    weight: float | None = Field(description="Weight among its neighbours, if its card is divided")


class TenantGoals(ApiView):
    """SLOs of a tenant's jobs."""

    tenant: str
    weight: float | None = Field(description="Weight in fair sharing; null: the tenant was deleted")
    jobs: int = Field(description="Jobs with an SLO, unfinished or ended since since_s")
    deadlines_met: int
    deadlines_missed: int
    deadline_ratio: float | None = Field(description="Met deadlines of those decided; null: none decided")
    attainment_ratio: float | None = Field(description="Current mean of the services that report; null: none does")
    unknown: int = Field(
        description="Running services whose attainment is unknown. They count as neither met nor missed"
    )


class DeadlinePoint(ApiView):
    """Deadlines of a tenant met or missed in an interval of span_s that starts at at_s."""

    at_s: float
    tenant: str
    met: int
    missed: int


class AttainmentPoint(ApiView):
    """Attainment of a job's SLO at one time."""

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
    span_s: float = Field(description="Width of one interval in deadlines")
    tenants: list[TenantGoals]
    jobs: list[JobGoal] = Field(description="At most 1,000, unfinished ones first")
    deadlines: list[DeadlinePoint]
    attainment: list[AttainmentPoint] = Field(description="Of services, oldest first; at most 20,000 points")
    policies: list[PolicyPoint]
    truncated: bool
